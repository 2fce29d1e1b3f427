"""`tvm.ir` and `tvm.transform`: modules, passes, texts."""
