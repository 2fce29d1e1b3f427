"""Operators about shapes: reading them (constants, since shapes are static) and changing them without moving data."""

from __future__ import annotations

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.onnx.build import constant, reshape
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.relay import op
from tilewright.relay.expr import Constant, Expr


@converts("Shape")
def convert_shape(node: OnnxNode) -> Expr:
    """The static shape, or a part of it (opset 15), as int64."""
    shape = node.shape()
    start, end = node.attr("start", 0), node.attr("end", len(shape))
    return constant(np.array(shape[start:end], np.int64), "int64")


@converts("Size")
def convert_size(node: OnnxNode) -> Expr:
    """The static element count as an int64 scalar."""
    return constant(int(np.prod(node.shape(), dtype=np.int64)), "int64")


@converts("Reshape")
def convert_reshape_1(node: OnnxNode) -> Expr:
    """Target shape as an attribute (opsets 1 to 4)."""
    return _reshape(node, node.require("shape"), allow_zero=False)


@converts("Reshape", since=5)
def convert_reshape_5(node: OnnxNode) -> Expr:
    """Target shape as an input; 0 copies the input's extent unless allowzero is set, one -1 is derived."""
    return _reshape(node, node.ints(1, "shape"), allow_zero=bool(node.attr("allowzero", 0)))


def _reshape(node: OnnxNode, target: list[int], allow_zero: bool) -> Expr:
    shape = node.shape()
    resolved = list(target)
    for axis, extent in enumerate(target):
        if extent == 0 and not allow_zero:
            if axis >= len(shape):
                raise ModelError(f"{node.label}: target shape {target} copies axis {axis}, which {list(shape)} lacks")
            resolved[axis] = shape[axis]
    count = int(np.prod(shape, dtype=np.int64))
    if resolved.count(-1) == 1:
        known = int(np.prod([extent for extent in resolved if extent != -1], dtype=np.int64))
        resolved[resolved.index(-1)] = count // known if known else 0
    if min(resolved, default=0) < 0 or int(np.prod(resolved, dtype=np.int64)) != count:
        raise ModelError(f"{node.label}: an input of shape {list(shape)} does not reshape to {target}")
    return reshape(node, node[0], resolved)


@converts("Flatten")
def convert_flatten(node: OnnxNode) -> Expr:
    """Two dimensions: the axes before `axis` and those from it on."""
    shape = node.shape()
    axis = int(node.attr("axis", 1))
    if not -len(shape) <= axis <= len(shape):
        raise ModelError(f"{node.label}: axis {axis} is out of range for {len(shape)} dimensions")
    axis += len(shape) if axis < 0 else 0
    leading = int(np.prod(shape[:axis], dtype=np.int64))
    return reshape(node, node[0], (leading, int(np.prod(shape[axis:], dtype=np.int64))))


@converts("Squeeze")
def convert_squeeze_1(node: OnnxNode) -> Expr:
    """Axes as an attribute (opsets 1 to 12)."""
    return _squeeze(node, node.attr("axes"))


@converts("Squeeze", since=13)
def convert_squeeze_13(node: OnnxNode) -> Expr:
    """Axes as an optional input."""
    return _squeeze(node, node.optional_ints(1, "axes"))


def _squeeze(node: OnnxNode, axes: list[int] | None) -> Expr:
    shape = node.shape()
    if axes is None:
        axes = [axis for axis, extent in enumerate(shape) if extent == 1]
    dropped = node.normalize_axes(axes, len(shape))
    if any(shape[axis] != 1 for axis in dropped):
        raise ModelError(f"{node.label}: axes {axes} of shape {list(shape)} are not all of extent 1")
    return op.squeeze(node[0], axis=tuple(dropped)) if dropped else node[0]


@converts("Unsqueeze")
def convert_unsqueeze_1(node: OnnxNode) -> Expr:
    """Axes as an attribute (opsets 1 to 12)."""
    return _unsqueeze(node, node.require("axes"))


@converts("Unsqueeze", since=13)
def convert_unsqueeze_13(node: OnnxNode) -> Expr:
    """Axes as an input."""
    return _unsqueeze(node, node.ints(1, "axes"))


def _unsqueeze(node: OnnxNode, axes: list[int]) -> Expr:
    shape = list(node.shape())
    for axis in sorted(node.normalize_axes(axes, len(shape) + len(axes))):
        shape.insert(axis, 1)
    return reshape(node, node[0], shape)


@converts("ConstantOfShape", since=9)
def convert_constant_of_shape(node: OnnxNode) -> Expr:
    """A constant filled with one value (default float zero)."""
    shape = node.ints(0, "shape")
    value = node.attr("value")
    value = np.zeros(1, np.float32) if value is None else value
    # A broadcast view: no memory is spent on what may never be materialized.
    return Constant(np.broadcast_to(value.reshape(()), shape))


_LONGEST_RANGE = 1 << 28  # elements; more is a damaged model rather than an index table


@converts("Range", since=11)
def convert_range(node: OnnxNode) -> Expr:
    """start, start + delta, … below limit; the bounds must be constant."""
    node.ignore("stash_type")
    names = ("start", "limit", "delta")
    start, limit, delta = (node.static(index, name).reshape(-1)[0] for index, name in enumerate(names))
    if not delta or abs((float(limit) - float(start)) / float(delta)) > _LONGEST_RANGE:
        raise ModelError(f"{node.label}: the range from {start} to {limit} in steps of {delta} is not usable")
    if node.dtype().is_int:
        values = np.arange(int(start), int(limit), int(delta))
    else:
        count = max(int(np.ceil((float(limit) - float(start)) / float(delta))), 0)
        values = start + np.arange(count, dtype=start.dtype) * delta
    return constant(values, node.dtype())


@converts("EyeLike", since=9)
def convert_eye_like(node: OnnxNode) -> Expr:
    """A constant with ones on diagonal k."""
    target = node.attr("dtype")
    dtype = node.dtype() if target is None else dtype_of(target, node.label)
    rows, columns = node.shape()
    return constant(np.eye(rows, columns, int(node.attr("k", 0))), dtype)
