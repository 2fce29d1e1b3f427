"""Small Relay idioms that several converters share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.onnx.dims import broadcast, is_known
from tilewright.frontend.onnx.node import NeedsValue, OnnxNode
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, Tuple
from tilewright.relay.ir.type import as_dim
from tilewright.support.dtype import DType


def constant(value: Any, dtype: str | DType) -> Constant:
    """A Relay constant of `value` in `dtype`."""
    return Constant(np.asarray(value).astype(DType(dtype).numpy))


def scalar_like(node: OnnxNode, value: Any, like: Expr) -> Constant:
    """The scalar `value` in the element type of `like`."""
    return constant(value, node.dtype(like))


def reshape(node: OnnxNode, value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` in `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    if not is_known(target):
        raise NeedsValue(f"{node.label}: the shape {list(target)} is known at run time only")
    return value if node.shape(value) == target else op.reshape(value, newshape=target)


def sized(node: OnnxNode, value: Expr, axis: int, extent: Any) -> Expr:
    """`value` with this extent along an axis, where that one is open: a run checks that it has it."""
    shape = node.shape(value)
    return value if isinstance(shape[axis], int) else reshape(node, value, (*shape[:axis], extent, *shape[axis + 1 :]))


def transpose(value: Expr, axes: Sequence[int]) -> Expr:
    """`value` with its axes permuted; itself when the permutation is the identity."""
    order = tuple(int(axis) for axis in axes)
    return value if order == tuple(range(len(order))) else op.transpose(value, axes=order)


def cast(node: OnnxNode, value: Expr, dtype: str | DType) -> Expr:
    """`value` in `dtype`; itself when it already has it."""
    return value if node.dtype(value) == DType(dtype) else op.cast(value, dtype=str(dtype))


def broadcast_to(node: OnnxNode, value: Expr, shape: Sequence[Any]) -> Expr:
    """`value` broadcast to `shape`; itself when it already has it."""
    target = tuple(as_dim(extent) for extent in shape)
    return value if node.shape(value) == target else op.broadcast_to(value, shape=target)


def concatenate(values: Sequence[Expr], axis: int) -> Expr:
    """`values` joined along `axis`; a single one is returned as it is."""
    return values[0] if len(values) == 1 else op.concatenate(Tuple(tuple(values)), axis=axis)


def slice_axis(node: OnnxNode, value: Expr, axis: int, begin: int, end: int) -> Expr:
    """Elements ``begin <= i < end`` of one axis."""
    if begin == 0 and end == node.shape(value)[axis]:
        return value
    return op.strided_slice(value, begin=(begin,), end=(end,), strides=(1,), axes=(axis,))


def index_axis(node: OnnxNode, value: Expr, axis: int, position: int) -> Expr:
    """The slice at `position` of one axis, which disappears."""
    return op.squeeze(slice_axis(node, value, axis, position, position + 1), axis=(axis,))


def broadcast_shapes(node: OnnxNode, *values: Expr) -> tuple[Any, ...]:
    """The common shape of `values` under NumPy broadcasting."""
    return broadcast(*(node.shape(value) for value in values))
