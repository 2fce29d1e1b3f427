"""Small Relay idioms that several converters share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Tuple
from tilewright.relay.ir.type import as_dim
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.dtype import DType


def shape_of(value: Expr) -> tuple[Any, ...]:
    """The extents of `value`."""
    return tensor_type_of(value).shape


def element_type(value: Expr) -> DType:
    """The element type of `value`."""
    return tensor_type_of(value).dtype


def rank_of(value: Expr) -> int:
    """The number of axes of `value`."""
    return len(shape_of(value))


def constant(value: Any, dtype: str | DType) -> Constant:
    """A Relay constant of `value` in `dtype`."""
    with np.errstate(over="ignore", invalid="ignore"):
        return Constant(np.asarray(value).astype(DType(dtype).numpy))


def like(value: Any, other: Expr) -> Constant:
    """The scalar `value` in the element type of `other`."""
    return constant(value, element_type(other))


def cast(value: Expr, dtype: str | DType) -> Expr:
    """`value` in `dtype`; itself when it already has it."""
    return value if element_type(value) == DType(dtype) else op.cast(value, dtype=str(dtype))


def reshape(value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` in `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    return value if shape_of(value) == target else op.reshape(value, newshape=target)


def broadcast_to(value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` broadcast to `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    return value if shape_of(value) == target else op.broadcast_to(value, shape=target)


def transpose(value: Expr, axes: Sequence[int]) -> Expr:
    """`value` with its axes permuted; itself when the permutation is the identity."""
    order = tuple(int(axis) for axis in axes)
    return value if order == tuple(range(len(order))) else op.transpose(value, axes=order)


def concatenate(values: Sequence[Expr], axis: int) -> Expr:
    """`values` joined along `axis`; a single one is returned as it is."""
    return values[0] if len(values) == 1 else op.concatenate(Tuple(tuple(values)), axis=axis)


def slice_axis(value: Expr, axis: int, begin: Any, end: Any, step: int = 1) -> Expr:
    """Elements begin, begin + step … before `end` of one axis."""
    extent = shape_of(value)[axis]
    whole = isinstance(begin, int) and begin == 0 and (end is extent or (isinstance(end, int) and end == extent))
    if whole and step == 1:
        return value
    return op.strided_slice(value, begin=(begin,), end=(end,), strides=(step,), axes=(axis,))


def index_axis(value: Expr, axis: int, position: Any) -> Expr:
    """The slice at `position` of one axis, which disappears."""
    return op.squeeze(slice_axis(value, axis, position, as_dim(position + 1)), axis=(axis,))


def full(value: Any, shape: Sequence[Any], dtype: str | DType) -> Expr:
    """A tensor of one number."""
    return broadcast_to(constant(value, dtype), shape)


def product(extents: Sequence[Any]) -> Any:
    """The product of extents."""
    return as_dim(math.prod(extents))


def move_axis(value: Expr, source: int, target: int) -> Expr:
    """`value` with the axis `source` moved to the place `target`."""
    order = [axis for axis in range(rank_of(value)) if axis != source]
    order.insert(target, source)
    return transpose(value, order)


def on_rank(value: Expr, rank: int) -> Expr:
    """`value` with axes of extent 1 in front, to have `rank` axes."""
    missing = rank - rank_of(value)
    return op.expand_dims(value, axis=0, num_newaxis=missing) if missing > 0 else value


def swapped(value: Expr) -> Expr:
    """`value` with its last two axes exchanged."""
    rank = rank_of(value)
    return transpose(value, [*range(rank - 2), rank - 1, rank - 2])
