"""Steps of the database's schema, one file a step, each named after its revision; `migrate.py` runs them."""
