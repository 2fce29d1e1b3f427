"""Tuning tasks: their extraction from networks, their search spaces, and the loop IR of a configuration."""
