"""Choosing a configuration of the accelerator for networks: a space of them, bounds, streams, measurements, a report."""
