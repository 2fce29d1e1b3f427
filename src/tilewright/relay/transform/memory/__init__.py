"""Where values live: on which device, and where in the memory of a run."""
