"""How tensors lie in memory: layouts over the whole graph, and constant weights as the kernels read them."""
