"""The backend of processors: code by LLVM, a run loop for each plan."""
