"""`tvm.topi` functions of shapes and positions whose classic parameters differ from this package's."""

from __future__ import annotations

import math
from typing import Any

from tilewright import te, tir, topi
from tilewright.errors import UnsupportedError


def take(
    a: te.Tensor, indices: te.Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "clip"
) -> te.Tensor:
    """Slices of `a` along `axis` (of the flattened `a` if None) at `indices`.

    An index out of range counts as the nearest end with the mode "clip", modulo the size with "wrap", and may not occur
    with "fast". Raises `UnsupportedError` for `batch_dims`.
    """
    if batch_dims:
        raise UnsupportedError("topi.take: batch_dims is 0 here; take of each batch, or gather_nd with batch_dims")
    return topi.take(a, indices, axis, mode)


def gather_nd(a: te.Tensor, indices: te.Tensor, batch_dims: int = 0) -> te.Tensor:
    """Slices of `a` at the coordinates in the first axis of `indices`, after `batch_dims` shared leading axes."""
    return topi.gather_nd(a, indices, batch_dims)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> te.Tensor:
    """start, start + step, … before stop; with one number, from 0 before it."""
    first, last = (0, start) if stop is None else (start, stop)
    begin, end, by = (tir.as_const(tir.convert(value)) for value in (first, last, 1 if step is None else step))
    if begin is None or end is None or by is None:
        raise UnsupportedError("topi.arange: start, stop and step are numbers, as they say how many elements there are")
    return topi.arange(begin, max(math.ceil((end - begin) / by), 0), by, dtype)


def one_hot(indices: te.Tensor, on_value: Any, off_value: Any, depth: int, axis: int, dtype: str) -> te.Tensor:
    """`on_value` where the new `axis` of size `depth` equals the index, else `off_value`; both are numbers."""
    on, off = (te.compute((), lambda value=value: tir.convert(value), name="value") for value in (on_value, off_value))
    return topi.one_hot(indices, on, off, depth, axis, dtype)


def where(condition: te.Tensor, x: te.Tensor, y: te.Tensor) -> te.Tensor:
    """`x` where `condition` is not 0, else `y`, all broadcast."""
    return topi.where(condition if condition.dtype.is_bool else topi.not_equal(condition, 0), x, y)
