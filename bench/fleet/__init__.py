"""Measurements of the fleet: latency, uploads, many jobs, and frames that no client would send."""
