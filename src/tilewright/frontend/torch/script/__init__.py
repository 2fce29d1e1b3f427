"""TorchScript to Relay: graphs are run on stand-ins for tensors, and the converters of ATen operators record them."""
