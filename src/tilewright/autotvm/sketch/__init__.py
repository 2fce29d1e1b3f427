"""Schedules without templates: sketches derived from what is computed, and a search through their knobs."""
