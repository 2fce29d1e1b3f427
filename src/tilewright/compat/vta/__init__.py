"""The package `vta`: environment, simulators, programs and operators."""
