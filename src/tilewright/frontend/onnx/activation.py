"""Activation functions and the softmax family."""

from __future__ import annotations

import math

import numpy as np

from tilewright.frontend import functions
from tilewright.frontend.onnx.build import cast, constant, reshape, scalar_like
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def hard_sigmoid(node: OnnxNode, data: Expr, alpha: float, beta: float) -> Expr:
    """clip(alpha * x + beta, 0, 1)."""
    line = op.add(op.multiply(data, scalar_like(node, alpha, data)), scalar_like(node, beta, data))
    return op.clip(line, a_min=0.0, a_max=1.0)


@converts("HardSigmoid")
@in_float32
def convert_hard_sigmoid(node: OnnxNode) -> Expr:
    """Piecewise-linear sigmoid."""
    return hard_sigmoid(node, node[0], node.attr("alpha", 0.2), node.attr("beta", 0.5))


@converts("HardSwish", since=14)
@in_float32
def convert_hard_swish(node: OnnxNode) -> Expr:
    """x * clip(x / 6 + 1/2, 0, 1), with the 1/6 of HardSigmoid's attribute, a float32."""
    return op.multiply(node[0], hard_sigmoid(node, node[0], float(np.float32(1 / 6)), 0.5))


@converts("Elu")
@in_float32
def convert_elu(node: OnnxNode) -> Expr:
    """Exponential linear unit."""
    return functions.elu(node[0], node.attr("alpha", 1.0))


@converts("Selu")
@in_float32
def convert_selu(node: OnnxNode) -> Expr:
    """gamma * elu(x, alpha); the default constants are those of the paper (opset 1 had rounded ones)."""
    exact = node.opset >= 6
    alpha = node.attr("alpha", 1.6732632423543772 if exact else 1.6732)
    gamma = node.attr("gamma", 1.0507009873554805 if exact else 1.0507)
    return functions.selu(node[0], alpha, gamma)


@converts("Celu", since=12)
@in_float32
def convert_celu(node: OnnxNode) -> Expr:
    """max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))."""
    return functions.celu(node[0], node.attr("alpha", 1.0))


@converts("LeakyRelu")
@in_float32
def convert_leaky_relu(node: OnnxNode) -> Expr:
    """Slope alpha below zero."""
    return op.nn.leaky_relu(node[0], alpha=node.attr("alpha", 0.01))


@converts("PRelu")
def convert_prelu(node: OnnxNode) -> Expr:
    """Slope given as a tensor; before opset 7 a vector of slopes belongs to the channel axis."""
    data, slope = node[0], node[1]
    if node.opset < 7 and node.rank(slope) == 1 and node.shape(slope)[0] > 1:
        slope = reshape(node, slope, (node.shape(slope)[0], *[1] * (node.rank() - 2)))
    return op.where(op.less(data, scalar_like(node, 0, data)), op.multiply(data, slope), data)


@converts("ThresholdedRelu")
@in_float32
def convert_thresholded_relu(node: OnnxNode) -> Expr:
    """Zero up to the threshold."""
    return functions.threshold(node[0], node.attr("alpha", 1.0), 0)


@converts("Softplus")
@in_float32
def convert_softplus(node: OnnxNode) -> Expr:
    """Smooth rectifier."""
    return functions.softplus(node[0])


@converts("Softsign")
@in_float32
def convert_softsign(node: OnnxNode) -> Expr:
    """Rational sigmoid."""
    return functions.softsign(node[0])


@converts("Swish", since=24)
@in_float32
def convert_swish(node: OnnxNode) -> Expr:
    """x * sigmoid(alpha * x)."""
    alpha = node.attr("alpha", 1.0)
    if alpha == 1.0:
        return op.nn.silu(node[0])
    scale = scalar_like(node, alpha, node[0])
    if alpha == 0.0:
        return op.multiply(node[0], scalar_like(node, 0.5, node[0]))
    return op.divide(op.nn.silu(op.multiply(node[0], scale)), scale)


@converts("Mish", since=18)
@in_float32
def convert_mish(node: OnnxNode) -> Expr:
    """x * tanh(softplus(x))."""
    return functions.mish(node[0])


@converts("Gelu", since=20)
@converts("Gelu", domain="com.microsoft")
@in_float32
def convert_gelu(node: OnnxNode) -> Expr:
    """x * Φ(x), exact with erf or in the tanh approximation."""
    return functions.gelu(node[0], node.choice("approximate", "none", ("none", "tanh")) == "tanh")


@converts("Shrink", since=9)
@in_float32
def convert_shrink(node: OnnxNode) -> Expr:
    """Zero within ±lambd, shifted toward zero by bias outside; of integers computed in float64, and cut off."""
    dtype = node.dtype()
    data = node[0] if dtype.is_float else op.cast(node[0], dtype="float64")
    lambd, bias = node.attr("lambd", 0.5), scalar_like(node, node.attr("bias", 0.0), data)
    upper = op.where(
        op.greater(data, scalar_like(node, lambd, data)), op.subtract(data, bias), scalar_like(node, 0, data)
    )
    return cast(node, op.where(op.less(data, scalar_like(node, -lambd, data)), op.add(data, bias), upper), dtype)


def _over_rows(node: OnnxNode, default_axis: int) -> tuple[Expr, int]:
    """The input and the axis to normalize: opsets below 13 flatten all axes from `axis` on into one."""
    if node.opset >= 13:
        return node[0], node.axis(-1)
    shape, axis = node.shape(), node.axis(default_axis)
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
    """Where the largest element along an axis, or NaN, is for the first time."""
    largest = op.max(data, axis=axis, keepdims=True)
    hit = op.logical_or(op.equal(data, largest), op.isnan(data))
    count = op.cumsum(op.cast(hit, dtype="int32"), axis=axis)
    return op.logical_and(hit, op.equal(count, constant(1, "int32")))


@converts("Hardmax")
def convert_hardmax(node: OnnxNode) -> Expr:
    """1 at the first maximum along the axis, 0 elsewhere."""
    data, axis = _over_rows(node, 1)
    if 0 in node.shape():
        return node[0]
    extent = node.shape(data)[axis]
    if not is_static((extent,)):
        return _as_given(node, cast(node, _first_largest(data, axis), node.dtype()), data)
    best = cast(node, op.argmax(data, axis=axis, keepdims=True), "int64")
    shape = [1] * node.rank(data)
    shape[axis] = extent
    positions = constant(np.arange(extent).reshape(shape), "int64")
    return _as_given(node, cast(node, op.equal(best, positions), node.dtype()), data)
