"""Loops over all elements of a shape, for computes that are written as loops (`te.extern`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tilewright.te import index_dtype
from tilewright.tir import op
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.topi.util import unflatten_index

#: Elements that one step of a copy moves.
_COPIED = 64


@contextmanager
def for_each(ib: IRBuilder, shape: Sequence[Any], kind: str = "serial") -> Iterator[tuple[Any, ...]]:
    """The indices of each element of `shape` in order, in one loop."""
    with ib.for_range(0, count(shape), name="element", kind=kind) as flat:
        yield tuple(ib.let(f"i{d}", op.convert(index)) for d, index in enumerate(unflatten_index(flat, shape)))


def count(shape: Sequence[Any]) -> Any:
    """The number of elements of `shape`."""
    return math.prod(shape, start=op.const(1, index_dtype()))


def copy_elements(ib: IRBuilder, source: BufferVar, target: BufferVar) -> None:
    """All elements of one buffer into another of the same shape, on all workers."""
    _fill(ib, target, lambda i: source[i])


def clear_elements(ib: IRBuilder, target: BufferVar) -> None:
    """Zeros into all elements of a buffer, on all workers."""
    _fill(ib, target, lambda _: op.const(0, target.dtype))


def _fill(ib: IRBuilder, target: BufferVar, value: Callable[[Any], Any]) -> None:
    total = count(target.buffer.shape)
    with (
        ib.for_range(0, total // _COPIED, name="block", kind="parallel") as block,
        ib.for_range(0, _COPIED, name="lane", kind="vectorized") as lane,
    ):
        target[block * _COPIED + lane] = value(block * _COPIED + lane)
    with ib.for_range(total // _COPIED * _COPIED, total, name="i") as i:
        target[i] = value(i)
