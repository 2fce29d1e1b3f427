"""Adapters for classic names whose signature or object differs from this package's own."""
