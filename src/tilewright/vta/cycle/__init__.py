"""The cycle simulator: the time of a program on a chip, and the stalls of its units."""

from tilewright.vta.cycle.chip import simulate
from tilewright.vta.cycle.driver import CycleDriver

__all__ = ["CycleDriver", "simulate"]
