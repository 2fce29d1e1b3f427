"""WebAssembly: objects of LLVM linked to modules, and models as modules with their run loop inside."""
