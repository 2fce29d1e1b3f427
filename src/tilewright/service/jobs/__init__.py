"""Jobs: kept in a database, claimed by workers, run in confined processes, and ended exactly once."""
