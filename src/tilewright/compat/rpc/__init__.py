"""`tvm.rpc`."""
