"""`tvm.tir` and `tvm.script`."""
