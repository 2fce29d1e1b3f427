"""Devices that run kernels of thread blocks."""
