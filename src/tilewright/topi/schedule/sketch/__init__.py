"""Schedules without templates: sketches derived from a computation's structure, and configurations of them."""
