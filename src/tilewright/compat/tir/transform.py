"""The classic constructors of the loop passes as names of a module: `Simplify`, `LoopPartition`, …"""

from tilewright.compat.tir.passes import CONSTRUCTORS

globals().update(CONSTRUCTORS)

__all__ = list(CONSTRUCTORS)
