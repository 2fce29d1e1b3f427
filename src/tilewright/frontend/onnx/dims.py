"""Dimensions in converters: integers, integer expressions over the model's symbolic extents, or unknown.

Converters write `product(shape)` and `floor_div(a, b)` rather than NumPy's functions, and get an integer wherever all
parts are integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any as Dim

from tilewright import tir
from tilewright.relay.ir.type import Any, as_dim


def is_static(dims: Iterable[Dim]) -> bool:
    """True if all of `dims` are integers."""
    return all(isinstance(dim, int) for dim in dims)


def is_known(dims: Iterable[Dim]) -> bool:
    """True if none of `dims` is `Any()`."""
    return not any(isinstance(dim, Any) for dim in dims)


def is_one(dim: Dim) -> bool:
    """True if `dim` is the integer 1."""
    return isinstance(dim, int) and dim == 1


def product(dims: Iterable[Dim]) -> Dim:
    """The product of `dims`; `Any()` if one is unknown."""
    listed = list(dims)
    return Any() if not is_known(listed) else as_dim(math.prod(listed))


def floor_div(a: Dim, b: Dim) -> Dim:
    """a / b rounded down; exact where `b` is a factor of the symbolic `a`."""
    return a // b if isinstance(a, int) and isinstance(b, int) else as_dim(tir.convert(a) // tir.convert(b))


def at_least(a: Dim, b: Dim) -> Dim:
    """The larger of two."""
    return (
        max(a, b) if isinstance(a, int) and isinstance(b, int) else as_dim(tir.maximum(tir.convert(a), tir.convert(b)))
    )


def at_most(a: Dim, b: Dim) -> Dim:
    """The smaller of two."""
    return (
        min(a, b) if isinstance(a, int) and isinstance(b, int) else as_dim(tir.minimum(tir.convert(a), tir.convert(b)))
    )


def broadcast(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The common shape under NumPy's rules; a symbolic extent agrees with itself and with 1, and wins over others.

    Raises ValueError where integers do not agree.
    """
    ndim = max(map(len, shapes), default=0)
    padded = [[1] * (ndim - len(shape)) + list(shape) for shape in shapes]
    return tuple(_common(axis) for axis in zip(*padded))


def _common(dims: Sequence[Dim]) -> Dim:
    """The extent that `dims` broadcast to."""
    others = [dim for dim in dims if not is_one(dim)]
    if not others:
        return 1
    fixed = {dim for dim in others if isinstance(dim, int)}
    if len(fixed) > 1:
        raise ValueError(f"extents {sorted(fixed)} do not broadcast")
    return fixed.pop() if fixed else others[0]
