"""Operators about shapes: reading them and changing them without moving data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import constant
from tilewright.frontend.onnx.dims import floor_div, is_known, is_static, product
from tilewright.frontend.onnx.node import NeedsValue, OnnxNode, reshape
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.frontend.onnx.tensors import dtype_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import Any as Any_
from tilewright.relay.op.host import shape_of
from tilewright.support.memory_limit import require_memory


@converts("Shape")
def convert_shape(node: OnnxNode, start: int = 0) -> Expr:
    """The shape, or a part of it (opset 15), as int64."""
    shape = node.shape()
    picked = range(*slice(start, node.attr("end", len(shape))).indices(len(shape)))
    extents = [shape[axis] for axis in picked]
    if is_static(extents):
        return constant(np.array(extents, np.int64), "int64")
    return op.take(shape_of(node[0]), constant(np.array(picked), "int64"), axis=0, mode="clip")


@converts("Size")
def convert_size(node: OnnxNode) -> Expr:
    count = product(node.shape())
    return constant(count, "int64") if isinstance(count, int) else op.prod(shape_of(node[0]), axis=(0,), keepdims=False)


@converts("Reshape")
def convert_reshape(node: OnnxNode, allowzero: bool = False) -> Expr:
    """0 copies the input's extent unless allowzero is set, one -1 is derived; an attribute before opset 5."""
    shape = node.shape()
    target = node.require("shape") if node.opset < 5 else node.dims(1, "shape")
    resolved = list(target)
    copied = [axis for axis, extent in enumerate(target) if isinstance(extent, int) and extent == 0 and not allowzero]
    for axis in copied:
        if axis >= len(shape):
            raise ModelError(f"{node.label}: target shape {target} copies axis {axis}, which {list(shape)} lacks")
        resolved[axis] = shape[axis]
    count = product(shape)
    derived = [axis for axis, extent in enumerate(resolved) if isinstance(extent, int) and extent == -1]
    if len(derived) == 1:  # what is copied leaves the same for it, even where that is 0
        source, others = [[e for axis, e in enumerate(one) if axis not in copied] for one in (shape, resolved)]
        resolved[derived[0]] = _derived(node, source, others)
    if is_static([*resolved, count]) and (min(resolved, default=0) < 0 or product(resolved) != count):
        raise ModelError(f"{node.label}: an input of shape {list(shape)} does not reshape to {target}")
    return reshape(node, node[0], resolved)


def _derived(node: OnnxNode, shape: Sequence[Any], target: Sequence[Any]) -> Any:
    """The extent for -1 in `target`: what the factors common to both leave of the input's extents."""
    source, others = list(shape), [extent for extent in target if not (isinstance(extent, int) and extent == -1)]
    for extent in list(others):
        matching = [i for i, other in enumerate(source) if other is extent]
        if matching and not isinstance(extent, int):
            source.pop(matching[0])
            others = _without(others, extent)
    known, count = product(others), product(source)
    if isinstance(known, int) and isinstance(count, int):
        return count // known if known else 0
    if isinstance(known, Any_) or isinstance(count, Any_):
        raise NeedsValue(f"{node.label}: the extent for -1 in its shape depends on data")
    return floor_div(count, known)


def _without(values: list[Any], gone: Any) -> list[Any]:
    """`values` without the first that is the object `gone`."""
    position = next(i for i, value in enumerate(values) if value is gone)
    return values[:position] + values[position + 1 :]


@converts("Flatten")
def convert_flatten(node: OnnxNode, x: Expr, axis: int = 1) -> Expr:
    """Two dimensions: the axes before `axis` and those from it on."""
    shape = node.shape()
    if not -len(shape) <= axis <= len(shape):
        raise ModelError(f"{node.label}: axis {axis} is out of range for {len(shape)} dimensions")
    axis += len(shape) if axis < 0 else 0
    return reshape(node, x, (product(shape[:axis]), product(shape[axis:])))


@converts("Squeeze")
def convert_squeeze(node: OnnxNode) -> Expr:
    """Axes of extent 1 left out, by default all; they are an attribute before opset 13."""
    shape, axes = node.shape(), node.numbers("axes", 1)
    if axes is None:
        if not is_static(shape):
            raise NeedsValue(f"{node.label}: which axes of {list(shape)} have the extent 1 is known at run time only")
        axes = [axis for axis, extent in enumerate(shape) if extent == 1]
    dropped = node.axes(axes, len(shape))
    if any(isinstance(shape[axis], int) and shape[axis] != 1 for axis in dropped):
        raise ModelError(f"{node.label}: axes {axes} of shape {list(shape)} are not all of extent 1")
    if any(not isinstance(shape[axis], int) for axis in dropped):  # a run checks that the number of elements fits
        return reshape(node, node[0], [extent for axis, extent in enumerate(shape) if axis not in dropped])
    return op.squeeze(node[0], axis=tuple(dropped)) if dropped else node[0]


@converts("Unsqueeze")
def convert_unsqueeze(node: OnnxNode) -> Expr:
    """Axes of extent 1 put in; they are an attribute before opset 13."""
    shape = list(node.shape())
    axes = node.require("axes") if node.opset < 13 else node.ints(1, "axes")
    positions = sorted(node.axes(axes, len(shape) + len(axes)))
    if not is_known(shape):
        return reduce(lambda data, axis: op.expand_dims(data, axis=axis), positions, node[0])
    for axis in positions:
        shape.insert(axis, 1)
    return reshape(node, node[0], shape)


#: Bytes up to which a tensor of one value is a constant, which is folded and stored like any other. A larger one is
#: filled when the model runs, if what reads it does not do without: a file of 100 bytes may ask for 512 GiB.
_LARGEST_FILLED = 1 << 28


@converts("ConstantOfShape", since=9)
def convert_constant_of_shape(node: OnnxNode) -> Expr:
    """A tensor filled with one value (default float zero)."""
    shape = node.dims(0, "shape")
    value = node.attr("value")
    value = np.zeros(1, np.float32) if value is None else value
    if is_static(shape) and any(dim < 0 for dim in shape):
        raise ModelError(f"{node.label}: a tensor cannot have the shape {list(shape)}")
    if not is_static(shape) or math.prod(shape) * value.itemsize > _LARGEST_FILLED:
        return op.broadcast_to(Constant(value.reshape(())), shape=tuple(shape))
    # A broadcast view: no memory is spent on what may never be materialized.
    return Constant(np.broadcast_to(value.reshape(()), shape))


_LONGEST_RANGE = 1 << 28  # elements; more is a damaged model rather than an index table


@converts("Range", since=11)
@converts("Range", domain=MICROSOFT)
def convert_range(node: OnnxNode) -> Expr:
    """start, start + delta, … below limit; the bounds must be constant, or integers made of the model's extents."""
    node.ignore("stash_type")
    names = ("start", "limit", "delta")
    if node.dtype().is_int:
        (first,), (last,), (step,) = (node.dims(index, name) for index, name in enumerate(names))
        if not is_static((first, last)) and is_static((step,)) and step > 0:
            return op.arange(first, last, step, dtype=str(node.dtype()))
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
def convert_eye_like(node: OnnxNode, k: int = 0) -> Expr:
    """A constant with ones on diagonal k."""
    target = node.attr("dtype")
    dtype = node.dtype() if target is None else dtype_of(target, node.label)
    rows, columns = node.shape()
    require_memory(8 * rows * columns, node.label)
    return constant(np.eye(rows, columns, k), dtype)
