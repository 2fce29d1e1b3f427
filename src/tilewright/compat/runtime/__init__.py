"""`tvm.runtime`, `tvm.nd`, `tvm.contrib`: arrays, devices, functions, libraries and files of modules."""
