"""The runtime's machine code, written by hand as LLVM IR text: the worker pool, and a model's entry for C.

The runtime generates nothing: it gets the pool as object code, from the artifact that it loads or from here.
"""
