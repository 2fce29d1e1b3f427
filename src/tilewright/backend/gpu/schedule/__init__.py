"""Schedules of kernels for devices of thread blocks: one file a template, `dispatch.py` chooses among them."""
