"""Tasks to tune: where they come from, their search spaces, and what each configuration lowers to."""
