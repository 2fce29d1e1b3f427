"""The backend of the accelerator VTA: pieces of a graph that it takes, as layers, and the programs for them."""
