"""Small Relay idioms of PyTorch's operators, beside those of all formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.idioms import broadcast_to, constant, like, rank_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.support.dtype import DType


def element_type(value: Expr) -> DType:
    """The element type of `value`."""
    return tensor_type_of(value).dtype


def divisor(node: TorchNode, count: Any, correction: float, least: float, data: Expr) -> Expr:
    """`count`, which may be symbolic, less `correction`, and `least` at least, in the element type of `data`."""
    if isinstance(count, int):
        return like(max(count - correction, least), data)
    dtype = element_type(data)
    return op.maximum(node.as_tensor(count, dtype) - constant(correction, dtype), constant(least, dtype))


def extent_of(extent: Any) -> Expr:
    """An extent, which may be symbolic, as a scalar of int64."""
    return constant(extent, "int64") if isinstance(extent, int) else op.sum(ones(extent), axis=(0,))


def arange(extent: Any) -> Expr:
    """0, 1 … below an extent, which may be symbolic."""
    if isinstance(extent, int):
        return constant(np.arange(extent), "int64")
    return op.cumsum(ones(extent), axis=0) - 1


def ones(extent: Any) -> Expr:
    """A vector of ones, of int64."""
    return broadcast_to(constant(1, "int64"), (extent,))


def on_rank(value: Expr, rank: int) -> Expr:
    """`value` with axes of extent 1 in front, to have `rank` axes."""
    missing = rank - rank_of(value)
    return op.expand_dims(value, axis=0, num_newaxis=missing) if missing > 0 else value
