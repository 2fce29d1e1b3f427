"""`Range`: a half-open span of integers, given by where it starts and how long it is."""

from __future__ import annotations

from typing import Any

from tilewright.tir import op
from tilewright.tir.expr import Expr


class Range:
    """The integers `min`, `min + 1`, … `min + extent - 1`; both are expressions of one dtype."""

    __slots__ = ("extent", "min")

    def __init__(self, min: Any, extent: Any) -> None:
        low, count = op.match(op.convert(min), op.convert(extent))
        if not low.dtype.is_int:
            raise TypeError(f"a range of {low.dtype}: its bounds must be integers")
        self.min: Expr = low
        self.extent: Expr = count

    @classmethod
    def from_bounds(cls, low: Any, high: Any) -> Range:
        """The integers from `low` to `high`, both included."""
        return cls(low, op.convert(high) - low + 1)

    @property
    def max(self) -> Expr:
        """The last integer of the range."""
        return self.min + self.extent - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Range) and self.min is other.min and self.extent is other.extent

    def __hash__(self) -> int:
        return hash((self.min, self.extent))

    def __repr__(self) -> str:
        return f"range({self.min!r}, {self.min + self.extent!r})"
