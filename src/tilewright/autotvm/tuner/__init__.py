"""Explorers of search spaces, and tuning one task by one of them."""
