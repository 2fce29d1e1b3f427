"""Rows of a tensor along one axis, for computes that are written as loops (`te.extern`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.te import index_dtype
from tilewright.tir import op
from tilewright.tir.ir_builder import IRBuilder
from tilewright.topi.util import unflatten_index


@dataclass(frozen=True)
class Rows:
    """The rows of a tensor of `shape` along `axis`: how many there are, their size, and where their elements are."""

    shape: tuple[Any, ...]
    axis: int

    @property
    def others(self) -> tuple[Any, ...]:
        """The sizes beside the axis."""
        return (*self.shape[: self.axis], *self.shape[self.axis + 1 :])

    @property
    def count(self) -> Any:
        """The number of rows."""
        return math.prod(self.others, start=op.const(1, index_dtype()))

    @property
    def size(self) -> Any:
        """The elements of a row."""
        return self.shape[self.axis]

    @property
    def contiguous(self) -> bool:
        """True if the elements of a row are neighbours in memory."""
        return all(op.is_const(op.convert(size), 1) for size in self.shape[self.axis + 1 :])

    def positions(self, ib: IRBuilder, row: Any) -> Callable[[Any], tuple[Any, ...]]:
        """For a row's number, the function from an element's number in it to its indices in the tensor."""
        found: Sequence[Any] = unflatten_index(row, self.others)
        held = [ib.let(f"i{d}", op.convert(index)) for d, index in enumerate(found)]
        return lambda position: (*held[: self.axis], position, *held[self.axis :])
