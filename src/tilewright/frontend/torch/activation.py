"""Activation functions."""

from __future__ import annotations

import math

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import like, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.random_numbers import draw
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("aten.relu")
def convert_relu(node: TorchNode) -> Expr:
    """max(x, 0)."""
    data = node.tensor("self")
    return op.nn.relu(data) if node.dtype.is_float else op.maximum(data, 0)


@converts("aten.relu6", "aten.hardtanh")
def convert_hardtanh(node: TorchNode) -> Expr:
    """x between two bounds."""
    data = node.tensor("self")
    low, high = node.get("min_val", 0), node.get("max_val", 6)
    if node.dtype.is_float:
        return op.clip(data, a_min=float(low), a_max=float(high))
    return op.minimum(op.maximum(data, like(low, data)), like(high, data))


@converts("aten.hardsigmoid", "aten.hardswish")
def convert_hardsigmoid(node: TorchNode) -> Expr:
    """clip(x + 3, 0, 6) / 6, for hardswish times x."""
    data = node.tensor("self")
    clipped = op.clip(data + 3, a_min=0.0, a_max=6.0)
    if "swish" in node.target:
        clipped = data * clipped
    return clipped / 6


@converts("aten.silu")
def convert_silu(node: TorchNode) -> Expr:
    """x * sigmoid(x)."""
    return functions.silu(node.tensor("self"))


@converts("aten.mish")
def convert_mish(node: TorchNode) -> Expr:
    """x * tanh(softplus(x))."""
    return functions.mish(node.tensor("self"))


@converts("aten.softplus")
def convert_softplus(node: TorchNode) -> Expr:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    data = node.tensor("self")
    scaled = data * node["beta"]
    made = functions.softplus(scaled) / node["beta"]
    return op.where(scaled > node["threshold"], data, made)


@converts("aten.log_sigmoid", "aten.log_sigmoid_forward")
def convert_log_sigmoid(node: TorchNode) -> Expr | list[Expr]:
    """-softplus(-x), and for the forward form an unread buffer."""
    data = node.tensor("self")
    made = functions.log_sigmoid(data)
    if "forward" not in node.target:
        return made
    if any(extent == 0 for extent in node.shape_at(1)):
        return [made, op.zeros(shape=node.shape_at(1), dtype=str(node.dtype))]
    return [made, op.exp(-op.abs(data))]


@converts("aten.gelu")
def convert_gelu(node: TorchNode) -> Expr:
    """x times the normal distribution function, or its approximation by tanh."""
    return functions.gelu(node.tensor("self"), node["approximate"] == "tanh")


@converts("aten.leaky_relu")
def convert_leaky_relu(node: TorchNode) -> Expr:
    """x above zero, slope times x below."""
    data, slope = node.tensor("self"), node["negative_slope"]
    return op.where(data > 0, data, data * slope)


@converts("aten.rrelu_with_noise_functional", "aten.rrelu_with_noise")
def convert_rrelu_with_noise(node: TorchNode) -> Expr | list[Expr]:
    """A leaky ReLU whose slopes are drawn in training, and those slopes, which are 1 for what is positive."""
    data, noise = node["self"], node["noise"]
    low, high = float(node["lower"]), float(node["upper"])
    if node["training"]:
        spread = draw(node, shape_of(data), node.dtype) * (high - low) + low
        noise = op.where(data <= 0, spread, 1)
        made = data * noise
    else:
        made = op.nn.leaky_relu(data, alpha=(low + high) / 2)
    return [made, noise] if isinstance(node.value, tuple | list) else made


@converts("aten.rrelu_with_noise_backward")
def convert_rrelu_backward(node: TorchNode) -> Expr:
    """The gradient times the slopes that were drawn, or times their mean."""
    gradient, data = node["grad_output"], node["self"]
    low, high = float(node["lower"]), float(node["upper"])
    if node["training"] and high - low > 1e-6:
        return gradient * node["noise"]
    slope = like((low + high) / 2, gradient)
    return op.where(data > 0, gradient, gradient * slope)


@converts("aten.rrelu")
def convert_rrelu(node: TorchNode) -> Expr:
    """At inference a leaky ReLU whose slope is the mean of the bounds."""
    if node["training"]:
        node.unsupported("training, which draws random numbers,")
    data, slope = node.tensor("self"), (node["lower"] + node["upper"]) / 2
    return op.where(data > 0, data, data * slope)


@converts("aten.prelu", "aten._prelu_kernel")
def convert_prelu(node: TorchNode) -> Expr:
    """A leaky ReLU with a slope for each channel."""
    data, slope = node.tensor("self"), node["weight"]
    if rank_of(slope) == 1 and rank_of(data) > 1:
        slope = reshape(slope, (shape_of(slope)[0], *[1] * (rank_of(data) - 2)))
    elif rank_of(slope) == 1:
        slope = reshape(slope, ()) if rank_of(data) == 0 else slope
    return op.where(data > 0, data, data * slope)


@converts("aten.elu", "aten.selu", "aten.celu")
def convert_elu(node: TorchNode) -> Expr:
    """scale * (x above zero, alpha * (exp(x * factor) - 1) below)."""
    data = node.tensor("self")
    alpha, scale, factor = node.get("alpha", 1.0), node.get("scale", 1.0), node.get("input_scale", 1.0)
    if "selu" in node.target:
        return functions.selu(data)
    if "celu" in node.target:
        return functions.celu(data, alpha)
    negative = op.minimum(data, 0)
    below = op.expm1(negative * factor) * (alpha * scale)
    return op.where(data > 0, data * scale, below)


@converts("aten.threshold")
def convert_threshold(node: TorchNode) -> Expr:
    """x above the threshold, a value elsewhere."""
    data = node.tensor("self")
    inside = data <= node["threshold"]
    return op.where(inside, like(node["value"], data), data)


@converts("aten.hardshrink", "aten.softshrink")
def convert_shrink(node: TorchNode) -> Expr:
    """0 within ±lambd; outside x, for softshrink moved toward zero by lambd."""
    data, bound = node.tensor("self"), node["lambd"]
    if "hardshrink" in node.target:
        inside = op.abs(data) <= bound
        return op.where(inside, 0, data)
    high, low = data > bound, data < -bound
    moved = op.where(low, data + bound, op.where(op.isnan(data), data, 0))
    return op.where(high, data - bound, moved)


@converts("aten.softsign")
def convert_softsign(node: TorchNode) -> Expr:
    """x / (1 + |x|)."""
    return functions.softsign(node.tensor("self"))


@converts("aten.glu")
def convert_glu(node: TorchNode) -> Expr:
    """The first half of an axis times the sigmoid of the second."""
    data, axis = node.tensor("self"), node.axis()
    extent = shape_of(data)[axis]
    first, second = slice_axis(data, axis, 0, extent // 2), slice_axis(data, axis, extent // 2, extent)
    return first * op.sigmoid(second)


@converts("aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax", "aten._safe_softmax")
def convert_softmax(node: TorchNode) -> Expr:
    """Exponentials over their sum along an axis, or the logarithm of that."""
    return softmax(node.tensor("self"), node.axis(), "log" in node.target, "safe" in node.target)


@converts("aten.softmin")
def convert_softmin(node: TorchNode) -> Expr:
    """The softmax of -x."""
    return softmax(-node.tensor("self"), node.axis())


def softmax(data: Expr, axis: int, logarithm: bool = False, safe: bool = False) -> Expr:
    """Softmax along an axis, of a scalar too; with `safe`, rows of -inf give 0."""
    if not rank_of(data):
        return data * 0 if logarithm else data * 0 + 1
    made = op.nn.log_softmax(data, axis=axis) if logarithm else op.nn.softmax(data, axis=axis)
    if not safe:
        return made
    nothing = op.equal(op.max(data, axis=(axis,), keepdims=True), -math.inf)
    return op.where(nothing, 0, made)
