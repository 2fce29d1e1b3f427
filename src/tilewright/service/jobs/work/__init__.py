"""The work of a job's process, one file a kind: each has one function, which takes a `Job` and returns its result."""
