"""`tvm.relay` and its executors."""
