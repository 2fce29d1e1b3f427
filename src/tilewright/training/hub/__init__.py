"""A parameter hub: a server that sums the gradients of many workers and updates the parameters, key by key."""
