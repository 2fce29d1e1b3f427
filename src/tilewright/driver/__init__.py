"""From an optimized module to something that runs: a kernel a fused function, memory, run loop, executable or C."""
