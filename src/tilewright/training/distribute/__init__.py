"""Training on several ranks: the step cut at buckets of gradients, their sums over gloo or MPI, sharded state."""
