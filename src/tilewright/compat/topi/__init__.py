"""`tvm.topi`."""
