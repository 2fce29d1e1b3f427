"""`tvm.arith`."""
