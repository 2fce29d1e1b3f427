"""The protocol over HTTP: connections with limits, paths, JSON and binary tensors."""
