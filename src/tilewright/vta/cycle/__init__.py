"""The cycle simulator: how long a program takes on a chip, and what its units wait for."""

from tilewright.vta.cycle.chip import simulate
from tilewright.vta.cycle.driver import CycleDriver

__all__ = ["CycleDriver", "simulate"]
