"""Integer analysis of index expressions: bounds, modular sets, simplification, interval sets, linear forms."""

from tilewright.arith.range import Range

__all__ = ["Range"]
