"""Passes as values: what switches them off, what watches them, and names that tell their results apart."""
