"""Programs of processors: object code in this process, its run loops called on one arena and the pool's workers."""
