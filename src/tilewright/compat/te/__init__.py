"""`tvm.te`."""
