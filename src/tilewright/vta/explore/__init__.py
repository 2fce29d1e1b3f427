"""Choosing a configuration of the accelerator for networks: a space, bounds, streams, tuning, a bundle."""
