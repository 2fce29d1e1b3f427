"""Tuning records: entries, files, the best of each task, TopHub."""
