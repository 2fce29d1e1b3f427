"""The static operators that stand for dynamic ones whose shapes turn out to be constants, the field `Op.static`.

Each takes the call and the values of its arguments from `Op.first_shape` on; None where there is no static operator.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op import tensor, transform
from tilewright.relay.op.gather import one_hot
from tilewright.relay.op.nn.activation import pad
from tilewright.relay.op.sort import topk


def _ints(values: np.ndarray) -> tuple[int, ...]:
    return tuple([int(value) for value in values.reshape(-1)])


def reshape(node: Call, shape: np.ndarray) -> Expr | None:
    """A size of 0 keeps the input's, where that is known."""
    type_ = type_of(node.args[0])
    assert isinstance(type_, TensorType)
    sizes = list(_ints(shape))
    for index, size in enumerate(sizes):
        if size == 0:
            if index >= type_.ndim or not isinstance(type_.shape[index], int):
                return None
            sizes[index] = type_.shape[index]
    return transform.reshape(node.args[0], sizes)


def strided_slice(node: Call, begin: np.ndarray, end: np.ndarray, strides: np.ndarray) -> Expr | None:
    """`strided_slice`, where `end` holds indices."""
    if node.attrs.slice_mode != "end":
        return None
    return transform.strided_slice(node.args[0], _ints(begin), _ints(end), _ints(strides))


def padded(node: Call, width: np.ndarray, value: np.ndarray) -> Expr:
    """`nn.pad`."""
    pairs = [(int(before), int(after)) for before, after in width.reshape(-1, 2)]
    return pad(node.args[0], pairs, float(value), node.attrs.pad_mode)


def largest(node: Call, k: np.ndarray) -> Expr:
    """`topk`."""
    return topk(node.args[0], int(k.reshape(())), **node.attrs)


def hot(node: Call, depth: np.ndarray) -> Expr:
    """`one_hot`."""
    indices, on_value, off_value = node.args[:3]
    return one_hot(indices, on_value, off_value, int(depth.reshape(())), node.attrs.axis, node.attrs.dtype)


def broadcast_to(node: Call, shape: np.ndarray) -> Expr:
    """`broadcast_to`."""
    return transform.broadcast_to(node.args[0], _ints(shape))


def expand_dims(node: Call, axis: np.ndarray) -> Expr:
    """`expand_dims`."""
    return transform.expand_dims(node.args[0], int(axis), node.attrs.num_newaxis)


def squeeze(node: Call, axis: np.ndarray) -> Expr:
    """`squeeze`."""
    return transform.squeeze(node.args[0], _ints(axis))


def full(node: Call, shape: np.ndarray) -> Expr:
    """`full`."""
    return tensor.full(node.args[0], _ints(shape), node.attrs.dtype)


def ones(node: Call, shape: np.ndarray) -> Expr:
    """`ones`."""
    return tensor.ones(_ints(shape), node.attrs.dtype)


def zeros(node: Call, shape: np.ndarray) -> Expr:
    """`zeros`."""
    return tensor.zeros(_ints(shape), node.attrs.dtype)


def tile(node: Call, reps: np.ndarray) -> Expr:
    """`tile`."""
    return transform.tile(node.args[0], _ints(reps))
