"""Gradients of element-wise operators, as tables of one formula each."""

from __future__ import annotations

import math
from typing import Any

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.op import nn, reduce, tensor
from tilewright.relay.op.annotation import MARKS
from tilewright.relay.op.gradients.common import (
    broadcasting,
    constant_pieces,
    elementwise,
    number,
    shape_of,
    tensor_type,
    unbroadcast,
)
from tilewright.relay.op.math import cosh, log1p, sinh
from tilewright.relay.op.tensor import erf
from tilewright.relay.op.transform import reshape


def _step(condition: Expr, gradient: Expr) -> Expr:
    """`gradient` where `condition` holds, 0 elsewhere."""
    return tensor.where(condition, gradient, tensor.zeros_like(gradient))


def _mish_gradient(g: Expr, x: Expr, y: Expr) -> Expr:
    """t + x (1 - t**2) sigmoid(x), t = tanh(softplus(x))."""
    soft = nn.relu(x) + log1p(tensor.exp(-tensor.abs(x)))
    steep = tensor.tanh(soft)
    return g * (steep + x * (number(1, x) - steep * steep) * tensor.sigmoid(x))


def _gelu_gradient(g: Expr, x: Expr, y: Expr) -> Expr:
    """The normal distribution function and x times its density.

    By erf, a fifth of the time of erfc in float32: what cancels far below zero is 3e-8 of a slope of one.
    """
    below = number(0.5, x) + number(0.5, x) * erf(x * number(math.sqrt(0.5), x))
    return g * (below + x * tensor.exp(x * x * number(-0.5, x)) * number(1 / math.sqrt(2 * math.pi), x))


def _gelu_tanh_gradient(g: Expr, x: Expr, y: Expr) -> Expr:
    """s + x s (1 - s) z', s = sigmoid(z), z = 2 sqrt(2/pi) (x + 0.044715 x**3)."""
    factor = 2 * math.sqrt(2 / math.pi)
    square = x * x
    part = tensor.sigmoid(x * (number(factor, x) + square * number(factor * 0.044715, x)))
    slope = number(factor, x) + square * number(3 * factor * 0.044715, x)
    return g * part * (number(1, x) + x * (number(1, x) - part) * slope)


elementwise(
    {
        "negative": lambda g, x, y: -g,
        "abs": lambda g, x, y: g * tensor.sign(x),
        "exp": lambda g, x, y: g * y,
        "log": lambda g, x, y: g / x,
        "sqrt": lambda g, x, y: g * number(0.5, x) / y,
        "rsqrt": lambda g, x, y: g * number(-0.5, x) * y / x,
        "tanh": lambda g, x, y: g * (number(1, x) - y * y),
        "sigmoid": lambda g, x, y: g * y * (number(1, x) - y),
        "erf": lambda g, x, y: g * number(2 / math.sqrt(math.pi), x) * tensor.exp(-(x * x)),
        "erfc": lambda g, x, y: g * number(-2 / math.sqrt(math.pi), x) * tensor.exp(-(x * x)),
        "nn.silu": lambda g, x, y: g * tensor.sigmoid(x) * (number(1, x) + x - y),
        "nn.mish": _mish_gradient,
        "nn.gelu": _gelu_gradient,
        "nn.gelu_tanh": _gelu_tanh_gradient,
        "sin": lambda g, x, y: g * tensor.cos(x),
        "cos": lambda g, x, y: -(g * tensor.sin(x)),
        "tan": lambda g, x, y: g * (number(1, x) + y * y),
        "acos": lambda g, x, y: -(g * tensor.rsqrt(number(1, x) - x * x)),
        "acosh": lambda g, x, y: g * tensor.rsqrt(x * x - number(1, x)),
        "asin": lambda g, x, y: g * tensor.rsqrt(number(1, x) - x * x),
        "asinh": lambda g, x, y: g * tensor.rsqrt(x * x + number(1, x)),
        "atan": lambda g, x, y: g / (x * x + number(1, x)),
        "atanh": lambda g, x, y: g / (number(1, x) - x * x),
        "cosh": lambda g, x, y: g * sinh(x),
        "sinh": lambda g, x, y: g * cosh(x),
        "expm1": lambda g, x, y: g * (y + number(1, x)),
        "log1p": lambda g, x, y: g / (x + number(1, x)),
        "log2": lambda g, x, y: g / (x * number(math.log(2), x)),
        "log10": lambda g, x, y: g / (x * number(math.log(10), x)),
        "copy": lambda g, x, y: g,
        "nn.relu": lambda g, x, y: _step(tensor.greater(x, number(0, x)), g),
        "nn.dropout": lambda g, x, y: g,
    }
)
elementwise({name: lambda g, x, y: g for name in MARKS})
constant_pieces("sign", "floor", "ceil", "trunc", "round", "zeros_like", "ones_like")
constant_pieces("zeros", "ones", "arange")


def _cast_gradient(call: Call, g: Expr) -> list[Expr | None]:
    source = tensor_type(call.args[0]).dtype
    return [tensor.cast(g, str(source)) if source.is_float and tensor_type(call).dtype.is_float else None]


def _clip_gradient(call: Call, g: Expr) -> list[Expr | None]:
    x = call.args[0]
    low, high = number(call.attrs["a_min"], x), number(call.attrs["a_max"], x)
    return [_step(tensor.logical_and(tensor.greater_equal(x, low), tensor.less_equal(x, high)), g)]


def _leaky_relu_gradient(call: Call, g: Expr) -> list[Expr | None]:
    x = call.args[0]
    return [tensor.where(tensor.greater(x, number(0, x)), g, g * number(call.attrs["alpha"], x))]


set_gradient("cast", _cast_gradient)
set_gradient("clip", _clip_gradient)
set_gradient("nn.leaky_relu", _leaky_relu_gradient)


# -------------------------------------------------------------------------------------------------- broadcasting
def _power_exponent(g: Expr, a: Expr, b: Expr) -> Expr:
    """g * a ** b * log(a), and 0 where a is not positive (the logarithm is not defined there)."""
    one, positive = number(1, a), tensor.greater(a, number(0, a))
    return _step_like(positive, g * tensor.power(a, b) * tensor.log(tensor.where(positive, a, one)))


def _step_like(condition: Expr, value: Expr) -> Expr:
    return tensor.where(condition, value, value - value)


broadcasting(
    {
        "add": (lambda g, a, b: g, lambda g, a, b: g),
        "subtract": (lambda g, a, b: g, lambda g, a, b: -g),
        "multiply": (lambda g, a, b: g * b, lambda g, a, b: g * a),
        "divide": (lambda g, a, b: g / b, lambda g, a, b: -(g * a / (b * b))),
        "power": (lambda g, a, b: g * b * tensor.power(a, b - number(1, b)), _power_exponent),
        "maximum": (
            lambda g, a, b: _step(tensor.greater_equal(a, b), g),
            lambda g, a, b: _step(tensor.less(a, b), g),
        ),
        "minimum": (
            lambda g, a, b: _step(tensor.less_equal(a, b), g),
            lambda g, a, b: _step(tensor.greater(a, b), g),
        ),
        "mod": (lambda g, a, b: g, lambda g, a, b: -(g * tensor.trunc(a / b))),
        "floor_mod": (lambda g, a, b: g, lambda g, a, b: -(g * tensor.floor(a / b))),
        "where": (None, lambda g, c, a, b: _step(c, g), lambda g, c, a, b: tensor.where(c, tensor.zeros_like(g), g)),
    }
)
constant_pieces("floor_divide")
set_gradient("full", lambda call, g: [reshape(reduce.sum(g), shape_of(call.args[0]))])
set_gradient("broadcast_to", lambda call, g: [unbroadcast(g, shape_of(call), call.args[0])])


# ------------------------------------------------------------------------------------------------- per channel
def channel_sum(g: Expr, vector: Expr, axis: int, shape: tuple[Any, ...]) -> Expr:
    """`g`, of `shape`, summed over all but the channels on `axis`, as `vector`: [C], blocked [C/b, b] or [1]."""
    size, last = shape_of(vector), len(shape) - 1
    kept = {axis % len(shape), last} if len(size) == 2 else {axis % len(shape)}
    if len(size) == 1 and size[0] != shape[axis]:
        kept = set()
    return reshape(reduce.sum(g, axis=[d for d in range(len(shape)) if d not in kept]), size)


def _bias_add_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, bias = call.args
    return [g, channel_sum(g, bias, call.attrs["axis"], shape_of(data))]


def _prelu_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, alpha = call.args
    positive = tensor.greater(data, number(0, data))
    slope = nn.bias_add(tensor.zeros_like(data), alpha, call.attrs["axis"])
    below = tensor.where(positive, tensor.zeros_like(g), g * data)
    return [tensor.where(positive, g, g * slope), channel_sum(below, alpha, call.attrs["axis"], shape_of(data))]


set_gradient("nn.bias_add", _bias_add_gradient)
set_gradient("nn.prelu", _prelu_gradient)
