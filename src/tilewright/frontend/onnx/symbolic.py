"""Shape arithmetic on symbolic extents: what a graph computes from shapes, as expressions instead of at run time.

    Shape(x) -> Gather(1) -> Mul(2) -> Concat([-1], …) -> Reshape

For integer tensors computed from shapes, an array of objects is kept beside their Relay expression: integers,
expressions over the model's size variables, `Any()` where not even that is known. An operator of the table below is
evaluated on such arrays as NumPy would on numbers; a result of integers only becomes a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import numpy as np

from tilewright import tir
from tilewright.frontend.onnx.dims import floor_div, is_known, product
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import Any, TensorType, as_dim
from tilewright.relay.ir.type_of import type_of

Objects = np.ndarray
_MOST_ELEMENTS = 256  # a tensor of more is no shape


def evaluate(node: OnnxNode) -> Objects | None:
    """The value of the first output of `node` by symbolic extents, or None if it is not made of such."""
    if node.proto.domain not in ("", "ai.onnx"):
        return None
    if node.op_type in ("Shape", "Size") and not isinstance(type_of(node[0]), TensorType):
        return None
    if node.op_type == "Shape":
        shape = node.shape()
        return shape_value(shape[node.attr("start", 0) : node.attr("end", len(shape))])
    if node.op_type == "Size":
        return _as_objects(product(node.shape()))
    function = _TABLE.get(node.op_type)
    if function is None:
        return None
    values = []
    for value in node.inputs:
        known = None if value is None else value_of(node, value)
        if known is None and value is not None:
            return None
        values.append(known)
    try:
        return function(node, values)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def value_of(node: OnnxNode, value: Expr) -> Objects | None:
    """The known elements of an input: a small integer constant, or tracked values."""
    if isinstance(value, Constant):
        small = value.data.size <= _MOST_ELEMENTS and value.data.dtype.kind in "biuf"
        return value.data.astype(object) if small else None
    return node.importer.symbolic.get(value)


def is_integers(values: Objects) -> bool:
    """True if every element is a plain number."""
    return all(isinstance(value, int | float | bool | np.generic) for value in values.reshape(-1))


def shape_value(dims: Sequence[AnyValue]) -> Objects:
    """The elements of a shape."""
    result = np.empty(len(dims), object)
    result[:] = list(dims)
    return result


def _elementwise(function: Callable[..., AnyValue]) -> Callable[[OnnxNode, list[AnyValue]], Objects]:
    def apply(_node: OnnxNode, values: list[AnyValue]) -> Objects:
        arrays = np.broadcast_arrays(*values)
        result = np.empty(arrays[0].shape, object)
        for position in np.ndindex(*arrays[0].shape):
            operands = [array[position] for array in arrays]
            result[position] = function(*operands) if is_known(operands) else Any()
        return result

    return apply


def _plain(value: AnyValue) -> AnyValue:
    """A float that is a whole number as an integer, so that it may meet an extent; other floats are an error."""
    if isinstance(value, float):
        if not value.is_integer():
            raise TypeError("a fraction of an extent")
        return int(value)
    return value


def _dim(function: Callable[..., AnyValue]) -> Callable[..., AnyValue]:
    return lambda *operands: as_dim(function(*map(_plain, operands)))


def _divided(a: AnyValue, b: AnyValue) -> AnyValue:
    a, b = _plain(a), _plain(b)
    if isinstance(b, int) and b <= 0:
        raise ValueError("an extent divided by what is no extent")
    return floor_div(a, b)


def _cast(node: OnnxNode, values: list[AnyValue]) -> Objects:
    return values[0]


def _gather(node: OnnxNode, values: list[AnyValue]) -> Objects:
    data, indices = values
    return _as_objects(np.take(data, indices.astype(np.int64), axis=int(node.attr("axis", 0))))


def _slice(node: OnnxNode, values: list[AnyValue]) -> Objects:
    if node.opset < 10:
        starts, ends, axes, steps = node.attr("starts"), node.attr("ends"), node.attr("axes"), None
        data = values[0]
    else:
        padded = [*values, None, None][:5]
        data = padded[0]
        starts, ends, axes, steps = (None if v is None else v.reshape(-1).tolist() for v in padded[1:])
    for position, (start, end) in enumerate(zip(starts, ends)):
        axis = axes[position] if axes else position
        step = steps[position] if steps else 1
        picked = range(*slice(int(start), int(end), int(step)).indices(data.shape[axis]))
        data = np.take(data, picked, axis=axis)
    return _as_objects(data)


def _as_objects(value: AnyValue) -> Objects:
    if isinstance(value, np.ndarray):
        return value
    result = np.empty((), object)
    result[()] = value
    return result


def _squeeze(node: OnnxNode, values: list[AnyValue]) -> Objects:
    axes = node.attr("axes") if len(values) < 2 or values[1] is None else [int(a) for a in values[1]]
    return values[0].squeeze(None if axes is None else tuple(axes))


def _unsqueeze(node: OnnxNode, values: list[AnyValue]) -> Objects:
    axes = node.attr("axes") if len(values) < 2 else [int(a) for a in values[1]]
    return np.expand_dims(values[0], tuple(axes))


def _reduce_prod(node: OnnxNode, values: list[AnyValue]) -> Objects:
    if values[0].ndim != 1 or not is_known(values[0]):
        raise ValueError("only the product of a whole shape is known")
    result: AnyValue = 1
    for extent in values[0]:
        result = as_dim(result * extent)
    return np.array([result] if node.attr("keepdims", 1) else result, object)


def _equal(a: AnyValue, b: AnyValue) -> bool:
    a, b = _plain(a), _plain(b)
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    number = a if isinstance(a, int) else b
    if a is b:
        return True
    if isinstance(number, int) and number <= 0:
        return False  # extents are at least 1
    raise ValueError("not known before run time")


_TABLE: dict[str, Callable[[OnnxNode, list[AnyValue]], Objects]] = {
    "Identity": lambda node, values: values[0],
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "Concat": lambda node, values: np.concatenate(values, axis=int(node.attr("axis", 0))),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": lambda node, values: values[0].reshape([int(v) for v in values[1]]),
    "ReduceProd": _reduce_prod,
    "Add": _elementwise(_dim(lambda a, b: a + b)),
    "Sub": _elementwise(_dim(lambda a, b: a - b)),
    "Mul": _elementwise(_dim(lambda a, b: a * b)),
    "Div": _elementwise(_divided),
    "Mod": _elementwise(_dim(lambda a, b: a % b)),
    "Max": _elementwise(_dim(lambda a, b: tir.maximum(tir.convert(a), tir.convert(b)))),
    "Min": _elementwise(_dim(lambda a, b: tir.minimum(tir.convert(a), tir.convert(b)))),
    "Floor": lambda node, values: values[0],
    "Ceil": lambda node, values: values[0],
    "Equal": _elementwise(_equal),
    "Where": _elementwise(lambda condition, a, b: a if condition else b),
}  # fmt: skip
