"""The backend of devices of thread blocks."""
