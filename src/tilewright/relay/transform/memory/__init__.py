"""Memory and devices of values: the device of each, and its offset in the memory of a run."""
