"""Networks on VTA: what of a graph the accelerator takes, and the program for it."""

from tilewright.driver.vta.offload import offload

__all__ = ["offload"]
