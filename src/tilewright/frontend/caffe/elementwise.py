"""Layers of one element at a time: activations, scales, normalizations, sums of several inputs."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.normalization import normalized
from tilewright.frontend.builders.windows import pool
from tilewright.frontend.caffe.node import CaffeNode, converts
from tilewright.frontend.idioms import broadcast_to, cast, constant, reshape, scale_shift, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

converts.unary({
    "Sigmoid": op.sigmoid, "TanH": op.tanh, "AbsVal": op.abs, "BNLL": functions.softplus, "ReLU6": functions.relu6,
    "Mish": functions.mish,
})  # fmt: skip
converts.functions({
    "ELU": lambda node: functions.elu(node[0], node.layer.elu_param.alpha),
    "Swish": lambda node: node[0] * op.sigmoid(functions.linear(node[0], node.layer.swish_param.beta)),
    "Clip": lambda node: op.clip(node[0], node.layer.clip_param.min, node.layer.clip_param.max),
    # 1 above the threshold, 0 else
    "Threshold": lambda node: cast(node[0] > node.layer.threshold_param.threshold, node.dtype()),
    "Parameter": lambda node: constant(node.blob(0)),
    # a factor a channel times one input, plus another
    "Axpy": lambda node: reshape(node[0], (*node.shape()[:2], 1, 1)) * node[1] + node[2],
    "Bias": lambda node: node[0] + _spread(node, node.layer.bias_param, node[1] if node.has(1) else node.blob(0)),
    # layers that change nothing outside of training
    **dict.fromkeys(("Dropout", "Split"), lambda node: [node[0]] * max(len(node.tops), 1)),
})  # fmt: skip


@converts("ReLU")
def convert_relu(node: CaffeNode) -> Expr:
    """With a slope for what is below zero."""
    slope = node.layer.relu_param.negative_slope
    return op.nn.leaky_relu(node[0], alpha=slope) if slope else op.nn.relu(node[0])


@converts("PReLU")
def convert_prelu(node: CaffeNode) -> Expr:
    """A slope a channel, or one for all."""
    slopes = node.blob(0).reshape(-1)
    (channels,) = node.shape()[1:2] or (1,)
    if slopes.size not in (1, channels):
        node.bad(f"{slopes.size} slopes for {channels} channels")
    return op.nn.prelu(node[0], constant(np.broadcast_to(slopes, (channels,))), axis=1)


@converts("Power")
def convert_power(node: CaffeNode) -> Expr:
    """(shift + scale * x) ^ power."""
    param = node.layer.power_param
    inner = functions.linear(node[0], param.scale, param.shift)
    if param.power == 1:
        return inner
    return inner * inner if param.power == 2 else op.power(inner, param.power)


@converts("Exp")
def convert_exp(node: CaffeNode) -> Expr:
    """base ^ (shift + scale * x), of e where the base is -1."""
    param = node.layer.exp_param
    factor = 1.0 if param.base == -1 else _log(node, param.base)
    return op.exp(functions.linear(node[0], param.scale * factor, param.shift * factor))


@converts("Log")
def convert_log(node: CaffeNode) -> Expr:
    """log(shift + scale * x) to the base, e where that is -1."""
    param = node.layer.log_param
    factor = 1.0 if param.base == -1 else 1 / _log(node, param.base)
    return functions.linear(op.log(functions.linear(node[0], param.scale, param.shift)), factor, 0)


def _log(node: CaffeNode, base: float) -> float:
    if base <= 0 or base == 1:
        node.bad(f"base {base}")
    return math.log(base)


def _spread(node: CaffeNode, param: Any, values: np.ndarray | Expr) -> Expr:
    """The factors of Scale or the addends of Bias, beside the axes that they belong to."""
    shape = values.shape if isinstance(values, np.ndarray) else shape_of(values)
    axis = node.axis(param.axis) if node.rank() else 0
    if isinstance(values, np.ndarray):
        inner = node.shape()[axis:] if param.num_axes == -1 else node.shape()[axis : axis + param.num_axes]
        if values.size != math.prod(inner):
            node.bad(f"{values.size} factors for axes {list(inner)}")
        shape, values = tuple(inner), constant(values)
    behind = node.rank() - axis - len(shape)
    if behind < 0:
        node.bad(f"factors of shape {list(shape)} do not fit {list(node.shape())} from axis {axis} on")
    return reshape(values, (*[1] * axis, *shape, *[1] * behind))


@converts("Scale")
def convert_scale(node: CaffeNode) -> Expr:
    """Times learned factors, or a second input."""
    param = node.layer.scale_param
    second = len(node.inputs) > 1
    factors = _spread(node, param, node[1] if second else node.blob(0))
    made = node[0] * factors
    if param.bias_term:
        values = node.blob(0 if second else 1, what="biases")
        if second:
            return made + reshape(constant(values), shape_of(factors))
        return made + _spread(node, param, values)
    return made


@converts("BatchNorm")
def convert_batch_norm(node: CaffeNode) -> Expr:
    """By the statistics of training, stored with a factor, or by the batch's own where the layer requests them."""
    param = node.layer.batch_norm_param
    channels = node.shape()[1] if node.rank() > 1 else 1
    if param.has("use_global_stats") and not param.use_global_stats:
        axes = tuple(axis for axis in range(node.rank()) if axis != 1)
        return normalized(node[0], axes, param.eps)
    mean, variance = node.blob(0, channels, what="means"), node.blob(1, channels, what="variances")
    factor = node.blob(2, 1, what="factors").item() if len(node.blobs) > 2 else 1.0
    factor = 0.0 if factor == 0 else 1 / factor
    scale = 1 / np.sqrt(np.maximum(variance * factor, 0) + param.eps)
    return scale_shift(node[0], scale, -mean * factor * scale)


@converts("BN")
def convert_bn(node: CaffeNode) -> Expr:
    """A normalization folded into one factor and one addend a channel."""
    channels = node.shape()[1]
    return scale_shift(node[0], node.blob(0, channels), node.blob(1, channels, what="shifts"))


@converts("LRN")
def convert_lrn(node: CaffeNode) -> Expr:
    """Local response normalization over channels or over squares of the image."""
    param = node.layer.lrn_param
    size = int(param.local_size)
    if size % 2 == 0:
        node.bad(f"local_size={size} is even")
    if param.norm_region == "ACROSS_CHANNELS":
        return op.nn.lrn(node[0], size=size, axis=1, bias=param.k, alpha=param.alpha, beta=param.beta)
    half = (size - 1) // 2
    squares = pool(node[0] * node[0], "mean", [size] * 2, [1, 1], [half] * 2, padding_counts=True)
    norm = op.power(functions.linear(squares, param.alpha, 1), -param.beta)
    return node[0] * norm


@converts("Normalize")
def convert_normalize(node: CaffeNode) -> Expr:
    """Divided by the length over channels, or over all, times learned factors."""
    param = node.layer.norm_param
    axes = tuple(range(1, node.rank())) if param.across_spatial else (1,)
    squares = op.sum(node[0] * node[0], axis=axes, keepdims=True)
    made = node[0] / op.sqrt(squares + param.eps)
    factors = node.blob(0).reshape(-1)
    if factors.size not in (1, node.shape()[1]):
        node.bad(f"{factors.size} factors for {node.shape()[1]} channels")
    return scale_shift(made, factors, None)


@converts("Eltwise")
def convert_eltwise(node: CaffeNode) -> Expr:
    """The product, the weighted sum or the maximum of inputs of one shape."""
    param, values = node.layer.eltwise_param, node.given()
    if len(param.coeff) and (len(param.coeff) != len(values) or param.operation != "SUM"):
        node.bad(f"{len(param.coeff)} coefficients of {len(values)} inputs")
    if len(param.coeff):
        values = [functions.linear(value, float(factor), 0) for value, factor in zip(values, param.coeff)]
    function = {"PROD": op.multiply, "SUM": op.add, "MAX": op.maximum}.get(param.operation)
    if function is None:
        node.unsupported(f"the operation {param.operation} is not supported")
    return reduce(function, values)


@converts("DummyData")
def convert_dummy_data(node: CaffeNode) -> list[Expr]:
    """Constants."""
    param = node.layer.dummy_data_param
    made: list[Expr] = []
    for index in range(len(node.tops)):
        filler = param.data_filler[min(index, len(param.data_filler) - 1)] if param.data_filler else None
        if filler is not None and filler.type != "constant":
            node.unsupported(f"data drawn at random ({filler.type}) is not supported")
        if param.shape:
            shape = [int(extent) for extent in param.shape[min(index, len(param.shape) - 1)].dim]
        else:
            shape = [int(getattr(param, name)[0]) for name in ("num", "channels", "height", "width")]
        value: Constant = constant(0.0 if filler is None else filler.value)
        made.append(broadcast_to(value, shape))
    return made
