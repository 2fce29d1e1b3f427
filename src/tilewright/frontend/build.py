"""Small Relay idioms that the converters of several formats share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay import op
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import as_dim
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.dtype import DType


def constant(value: Any, dtype: str) -> Constant:
    """A Relay constant of `value` in `dtype`."""
    return Constant(np.asarray(value).astype(DType(dtype).numpy))


def scalar_like(value: Any, like: Expr) -> Constant:
    """The scalar `value` in the element type of `like`."""
    return constant(value, str(tensor_type_of(like).dtype))


def shape_of(value: Expr) -> tuple[Any, ...]:
    """The extents of a tensor."""
    return tensor_type_of(value).shape


def dtype_of(value: Expr) -> str:
    """The element type of a tensor."""
    return str(tensor_type_of(value).dtype)


def cast(value: Expr, dtype: str) -> Expr:
    """`value` in `dtype`; itself when it already has it."""
    return value if dtype_of(value) == dtype else op.cast(value, dtype=dtype)


def reshape(value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` in `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    return value if shape_of(value) == target else op.reshape(value, newshape=target)


def transpose(value: Expr, axes: Sequence[int]) -> Expr:
    """`value` with its axes permuted; what was permuted before is permuted once, the identity not at all."""
    order = tuple(int(axis) for axis in axes)
    if isinstance(value, Call) and isinstance(value.op, Op) and value.op.name == "transpose":
        inner = value.attrs["axes"]
        if inner is not None:
            return transpose(value.args[0], [inner[axis] for axis in order])
    return value if order == tuple(range(len(order))) else op.transpose(value, axes=order)


def channels_first(value: Expr) -> Expr:
    """[N, spatial …, C] as [N, C, spatial …]."""
    rank = len(shape_of(value))
    return transpose(value, (0, rank - 1, *range(1, rank - 1)))


def channels_last(value: Expr) -> Expr:
    """[N, C, spatial …] as [N, spatial …, C]."""
    rank = len(shape_of(value))
    return transpose(value, (0, *range(2, rank), 1))


def broadcast_to(value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` broadcast to `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    return value if shape_of(value) == target else op.broadcast_to(value, shape=target)


def concatenate(values: Sequence[Expr], axis: int) -> Expr:
    """`values` joined along `axis`; a single one is returned as it is."""
    return values[0] if len(values) == 1 else op.concatenate(Tuple(tuple(values)), axis=axis)


def slice_axis(value: Expr, axis: int, begin: int, end: int) -> Expr:
    """Elements ``begin <= i < end`` of one axis."""
    if begin == 0 and end == shape_of(value)[axis]:
        return value
    return op.strided_slice(value, begin=(begin,), end=(end,), strides=(1,), axes=(axis,))


def index_axis(value: Expr, axis: int, position: int) -> Expr:
    """The slice at `position` of one axis, which disappears."""
    return op.squeeze(slice_axis(value, axis, position, position + 1), axis=(axis,))


def round_half_away(value: Expr) -> Expr:
    """Floats as whole numbers, halves away from zero, as C's `round`."""
    whole = op.trunc(value)
    half = scalar_like(0.5, value)
    away = op.greater_equal(op.abs(op.subtract(value, whole)), half)
    return op.add(whole, op.where(away, op.sign(value), scalar_like(0, value)))


def rank_of(value: Expr) -> int:
    """The number of axes of a tensor."""
    return len(shape_of(value))


def product(extents: Sequence[Any]) -> Any:
    """The product of extents."""
    return as_dim(math.prod(extents))


def full(value: Any, shape: Sequence[Any], dtype: str) -> Expr:
    """A tensor of one number."""
    return broadcast_to(constant(value, dtype), shape)


def move_axis(value: Expr, source: int, target: int) -> Expr:
    """`value` with the axis `source` moved to the place `target`."""
    order = [axis for axis in range(rank_of(value)) if axis != source]
    order.insert(target, source)
    return transpose(value, order)


def is_float(dtype: str) -> bool:
    """True for floating point of any width."""
    return DType(dtype).is_float
