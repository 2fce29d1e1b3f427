"""From Relay with control flow to a program of the virtual machine: scopes, segments, closures, bytecode."""
