"""The virtual machine: bytecode around compiled segments, for programs with control flow, closures and data types."""
