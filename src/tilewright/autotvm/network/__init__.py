"""Tuning whole networks: scheduling among tasks, records, the verdict."""
