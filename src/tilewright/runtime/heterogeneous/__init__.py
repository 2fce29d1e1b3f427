"""Programs whose segments run on a device with a memory of its own and on the host's processor."""
