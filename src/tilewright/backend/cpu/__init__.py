"""Processors: kernels by the templates of `topi/schedule/cpu`, through LLVM or C."""
