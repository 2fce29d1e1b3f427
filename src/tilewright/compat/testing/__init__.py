"""`tvm.testing`."""
