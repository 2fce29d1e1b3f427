"""Layouts of tensors over the whole graph, and constant weights packed as the kernels read them."""
