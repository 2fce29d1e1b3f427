"""`tvm.target`."""
