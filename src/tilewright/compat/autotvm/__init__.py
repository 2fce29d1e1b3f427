"""`tvm.autotvm`."""
