"""`tvm.lower`, `tvm.build`, and the names at the top of the package."""
