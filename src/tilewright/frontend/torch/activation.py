"""Activation functions."""

from __future__ import annotations

import math
from typing import Any

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import like, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.signature import Axis, Typed
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.random_numbers import draw
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _leaky_relu(x: Expr, negative_slope: Any) -> Expr:
    return op.where(x > 0, x, x * negative_slope)


def _softplus(x: Expr, beta: Any, threshold: Any) -> Expr:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    scaled = x * beta
    return op.where(scaled > threshold, x, functions.softplus(scaled) / beta)


def _threshold(x: Expr, threshold: Any, value: Any) -> Expr:
    return op.where(x <= threshold, like(value, x), x)


def _elu(x: Expr, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Expr:
    """scale * (x above zero, alpha * (exp(x * input_scale) - 1) below)."""
    return op.where(x > 0, x * scale, op.expm1(op.minimum(x, 0) * input_scale) * (alpha * scale))


def _soft_shrink(x: Expr, lambd: Any) -> Expr:
    """0 within ±lambd, NaN where x is; outside x moved toward zero by lambd."""
    moved = op.where(x < -lambd, x + lambd, op.where(op.isnan(x), x, 0))
    return op.where(x > lambd, x - lambd, moved)


converts.typed({
    "aten.silu": functions.silu, "aten.mish": functions.mish, "aten.softsign": functions.softsign,
    "aten.gelu": lambda x, approximate="none": functions.gelu(x, approximate == "tanh"),
    "aten.leaky_relu": _leaky_relu, "aten.softplus": _softplus, "aten.elu": _elu, "aten.celu": functions.celu,
    "aten.selu": functions.selu, "aten.softshrink": _soft_shrink,
    "aten.hardshrink": lambda x, lambd=0.5: op.where(op.abs(x) <= lambd, 0, x), "aten.threshold": _threshold,
    "aten.hardsigmoid": functions.hard_sigmoid, "aten.hardswish": lambda x: x * functions.relu6(x + 3) / 6,
})  # fmt: skip


@converts("aten.relu")
def convert_relu(node: TorchNode, data: Typed) -> Expr:
    """max(x, 0)."""
    return op.nn.relu(data) if node.dtype.is_float else op.maximum(data, 0)


@converts("aten.relu6", "aten.hardtanh")
def convert_hardtanh(node: TorchNode, data: Typed, min_val: Any = 0, max_val: Any = 6) -> Expr:
    if node.dtype.is_float:
        return op.clip(data, a_min=float(min_val), a_max=float(max_val))
    return op.minimum(op.maximum(data, like(min_val, data)), like(max_val, data))


@converts("aten.log_sigmoid", "aten.log_sigmoid_forward")
def convert_log_sigmoid(node: TorchNode, data: Typed) -> Expr | list[Expr]:
    """-softplus(-x), and for the forward form an unread buffer."""
    made = functions.log_sigmoid(data)
    if "forward" not in node.target:
        return made
    if any(extent == 0 for extent in node.shape_at(1)):
        return [made, op.zeros(shape=node.shape_at(1), dtype=str(node.dtype))]
    return [made, op.exp(-op.abs(data))]


@converts("aten.rrelu")
def convert_rrelu(node: TorchNode, data: Typed, lower: Any, upper: Any, training: bool) -> Expr:
    """At inference a leaky ReLU whose slope is the mean of the bounds."""
    if training:
        node.unsupported("training, which draws random numbers,")
    return _leaky_relu(data, (lower + upper) / 2)


@converts("aten.rrelu_with_noise_functional", "aten.rrelu_with_noise")
def convert_rrelu_with_noise(
    node: TorchNode, data: Expr, noise: Expr, lower: float, upper: float, training: bool
) -> Expr | list[Expr]:
    """A leaky ReLU whose slopes are drawn in training, and those slopes, which are 1 for what is positive."""
    if training:
        spread = draw(node, shape_of(data), node.dtype) * (upper - lower) + lower
        noise = op.where(data <= 0, spread, 1)
        made = data * noise
    else:
        made = op.nn.leaky_relu(data, alpha=(lower + upper) / 2)
    return [made, noise] if isinstance(node.value, tuple | list) else made


@converts("aten.rrelu_with_noise_backward")
def convert_rrelu_backward(node: TorchNode) -> Expr:
    gradient, data = node["grad_output"], node["self"]
    low, high = float(node["lower"]), float(node["upper"])
    if node["training"] and high - low > 1e-6:
        return gradient * node["noise"]
    return op.where(data > 0, gradient, gradient * like((low + high) / 2, gradient))


@converts("aten.prelu", "aten._prelu_kernel")
def convert_prelu(data: Typed, weight: Expr) -> Expr:
    if rank_of(weight) == 1 and rank_of(data) > 1:
        weight = reshape(weight, (shape_of(weight)[0], *[1] * (rank_of(data) - 2)))
    elif rank_of(weight) == 1:
        weight = reshape(weight, ()) if rank_of(data) == 0 else weight
    return op.where(data > 0, data, data * weight)


@converts("aten.glu")
def convert_glu(data: Typed, dim: Axis) -> Expr:
    extent = shape_of(data)[dim]
    return slice_axis(data, dim, 0, extent // 2) * op.sigmoid(slice_axis(data, dim, extent // 2, extent))


@converts("aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax", "aten._safe_softmax")
def convert_softmax(node: TorchNode, data: Typed) -> Expr:
    return softmax(data, node.axis(node["dim"]), "log" in node.target, "safe" in node.target)


@converts("aten.softmin")
def convert_softmin(data: Typed, dim: Axis) -> Expr:
    return softmax(-data, dim)


def softmax(data: Expr, axis: int, logarithm: bool = False, safe: bool = False) -> Expr:
    """Softmax along an axis, of a scalar too; with `safe`, 0 for rows of -inf."""
    if not rank_of(data):
        return data * 0 if logarithm else data * 0 + 1
    made = op.nn.log_softmax(data, axis=axis) if logarithm else op.nn.softmax(data, axis=axis)
    if not safe:
        return made
    nothing = op.equal(op.max(data, axis=(axis,), keepdims=True), -math.inf)
    return op.where(nothing, 0, made)
