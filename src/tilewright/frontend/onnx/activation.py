"""Activation functions and the softmax family."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.node import OnnxNode, reshape
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: Below it 1 + exp(x) is 1 in every type, so that the sigmoid is the exponential.
_FAR = -40.0


def thresholded_relu(x: Expr, alpha: float = 1.0) -> Expr:
    """`x` where above alpha, 0 elsewhere."""
    return functions.threshold(x, alpha, 0)


_FUNCTIONS: dict[tuple[str, int], Callable[..., Expr]] = {
    ("HardSigmoid", 1): functions.hard_linear, ("LeakyRelu", 1): functions.leaky_relu,
    ("ThresholdedRelu", 1): thresholded_relu, ("Elu", 1): functions.elu, ("Celu", 12): functions.celu,
    ("Softplus", 1): functions.softplus, ("Softsign", 1): functions.softsign, ("Mish", 18): functions.mish,
}  # fmt: skip
for (_operator, _since), _function in _FUNCTIONS.items():
    converts(_operator, since=_since)(in_float32(_function))


@converts("HardSwish", since=14)
@in_float32
def convert_hard_swish(x: Expr) -> Expr:
    """x * clip(x / 6 + 1/2, 0, 1), with the 1/6 of HardSigmoid's attribute, a float32."""
    return x * functions.hard_linear(x, float(np.float32(1 / 6)), 0.5)


@converts("Selu")
@in_float32
def convert_selu(node: OnnxNode) -> Expr:
    """gamma * elu(x, alpha); the default constants are those of the paper (opset 1 had rounded ones)."""
    exact = node.opset >= 6
    alpha = node.attr("alpha", 1.6732632423543772 if exact else 1.6732)
    gamma = node.attr("gamma", 1.0507009873554805 if exact else 1.0507)
    return functions.selu(node[0], alpha, gamma)


@converts("PRelu")
def convert_prelu(node: OnnxNode) -> Expr:
    """Slope given as a tensor; before opset 7 a vector of slopes belongs to the channel axis."""
    data, slope = node[0], node[1]
    if node.opset < 7 and node.rank(slope) == 1 and node.shape(slope)[0] > 1:
        slope = reshape(node, slope, (node.shape(slope)[0], *[1] * (node.rank() - 2)))
    return op.where(data < 0, data * slope, data)


@converts("Swish", since=24)
@in_float32
def convert_swish(x: Expr, alpha: float = 1.0) -> Expr:
    """x * sigmoid(alpha * x): far below zero x * exp(alpha * x) in two factors, as the sigmoid loses digits there."""
    if alpha == 1.0:
        return op.nn.silu(x)
    if alpha == 0.0:
        return x * 0.5
    scaled = x * alpha
    half = op.exp(scaled * 0.5)
    return op.where(scaled < _FAR, x * half * half, x * op.sigmoid(scaled))


@converts("Gelu", since=20)
@in_float32
def convert_gelu(node: OnnxNode) -> Expr:
    """x * Φ(x), exact with erf or in the tanh approximation."""
    return functions.gelu(node[0], node.choice("approximate", "none", ("none", "tanh")) == "tanh")


@converts("Shrink", since=9)
@in_float32
def convert_shrink(node: OnnxNode, x: Expr, lambd: float = 0.5, bias: float = 0.0) -> Expr:
    """Zero within ±lambd, shifted toward zero by bias outside; of integers computed in float64, and cut off."""
    data = x if node.dtype().is_float else cast(x, "float64")
    upper = op.where(data > lambd, data - bias, 0)
    return cast(op.where(data < -lambd, data + bias, upper), node.dtype())


def _over_rows(node: OnnxNode, default_axis: int) -> tuple[Expr, int]:
    """The input and the axis to normalize: opsets below 13 flatten all axes from `axis` on into one."""
    if node.opset >= 13:
        return node[0], node.named_axis(-1)
    shape, axis = node.shape(), node.named_axis(default_axis)
    rows = (math.prod(shape[:axis]), math.prod(shape[axis:]))
    return (node[0], axis) if axis == len(shape) - 1 else (reshape(node, node[0], rows), 1)


@converts("Softmax", "LogSoftmax")
def convert_softmax(node: OnnxNode) -> Expr:
    """Softmax along an axis, or before opset 13 over all axes from `axis` on."""
    data, axis = _over_rows(node, 1)
    if 0 in node.shape():
        return node[0]
    function = op.nn.softmax if node.op_type == "Softmax" else op.nn.log_softmax
    return _as_given(node, function(data, axis=axis), data)


def _as_given(node: OnnxNode, value: Expr, data: Expr) -> Expr:
    """`value`, which has the shape of `data` (`_over_rows`), in that of the input."""
    return value if data is node[0] else reshape(node, value, node.shape())


def _first_largest(data: Expr, axis: int) -> Expr:
    """The first index of the largest element, or of NaN, along an axis."""
    largest = op.max(data, axis=axis, keepdims=True)
    hit = op.logical_or(op.equal(data, largest), op.isnan(data))
    count = op.cumsum(op.cast(hit, dtype="int32"), axis=axis)
    return op.logical_and(hit, op.equal(count, constant(1, "int32")))


@converts("Hardmax")
def convert_hardmax(node: OnnxNode) -> Expr:
    data, axis = _over_rows(node, 1)
    if 0 in node.shape():
        return node[0]
    extent = node.shape(data)[axis]
    if not is_static((extent,)):
        return _as_given(node, cast(_first_largest(data, axis), node.dtype()), data)
    best = cast(op.argmax(data, axis=axis, keepdims=True), "int64")
    shape = [1] * node.rank(data)
    shape[axis] = extent
    positions = constant(np.arange(extent).reshape(shape), "int64")
    return _as_given(node, cast(op.equal(best, positions), node.dtype()), data)
