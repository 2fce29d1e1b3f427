"""Features of configurations that cost models learn from."""
