"""Operators of one element at a time, reductions, and those that make numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import functions
from tilewright.frontend.builders.reductions import REDUCTIONS, p_norm
from tilewright.frontend.paddle.node import PaddleNode, converts
from tilewright.frontend.paddle.schema import DTYPES
from tilewright.frontend.signature import Axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

# Functions of one operand.
converts.unary({
    "relu": op.nn.relu, "sigmoid": op.sigmoid, "tanh": op.tanh, "abs": op.abs, "exp": op.exp, "sqrt": op.sqrt,
    "rsqrt": op.rsqrt, "log": op.log, "log2": op.log2, "log10": op.log10, "log1p": op.log1p, "expm1": op.expm1,
    "sin": op.sin,
    "cos": op.cos, "tan": op.tan, "asin": op.asin, "acos": op.acos, "atan": op.atan, "sinh": op.sinh, "cosh": op.cosh,
    "asinh": op.asinh, "acosh": op.acosh, "atanh": op.atanh, "floor": op.floor, "ceil": op.ceil, "round": op.round,
    "sign": op.sign, "erf": op.erf, "logical_not": op.logical_not, "bitwise_not": op.bitwise_not, "isnan": op.isnan,
    "isnan_v2": op.isnan, "isinf": op.isinf, "isfinite": op.isfinite,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "silu": functions.silu, "selu": functions.selu,
    "softsign": functions.softsign,
    "mish": functions.mish,
    "logsigmoid": functions.log_sigmoid,
    "relu6": functions.relu6,
    "tanh_shrink": functions.tanh_shrink,
    "assign": lambda x: x, "share_data": lambda x: x, "share_data_": lambda x: x, "memcpy_d2h": lambda x: x,
})  # fmt: skip

_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": op.add, "subtract": op.subtract, "multiply": op.multiply, "divide": op.divide, "maximum": op.maximum,
    "minimum": op.minimum, "elementwise_pow": op.power, "remainder": op.floor_mod, "floor_divide": op.floor_divide,
    "fmax": op.maximum, "fmin": op.minimum, "equal": op.equal, "not_equal": op.not_equal, "less_than": op.less,
    "less_equal": op.less_equal, "greater_than": op.greater, "greater_equal": op.greater_equal,
    "logical_and": op.logical_and, "logical_or": op.logical_or, "logical_xor": op.logical_xor,
    "bitwise_and": op.bitwise_and, "bitwise_or": op.bitwise_or, "bitwise_xor": op.bitwise_xor,
}  # fmt: skip


@converts(*_BINARY)
def convert_binary(node: PaddleNode) -> Expr:
    """Functions of two operands, which broadcast; in old programs the second may begin at an axis of the first."""
    x, y, axis = node[0], node[1], node.attrs.get("axis", -1)
    if isinstance(axis, int) and axis >= 0 and idioms.rank_of(y) < idioms.rank_of(x):
        y = idioms.reshape(y, (*idioms.shape_of(y), *[1] * (idioms.rank_of(x) - axis - idioms.rank_of(y))))
    return _BINARY[node.operator](x, y)


@converts("scale")
def convert_scale(node: PaddleNode) -> Expr:
    """x * scale + bias, or (x + bias) * scale."""
    x, factor, bias = node[0], node.number(1, "scale", 1.0), node.attr("bias", 0.0)
    if node.attr("bias_after_scale", True):
        return functions.linear(x, factor, bias)
    return (x + bias) * factor


def _slope(node: PaddleNode) -> float:
    return float(node.attrs.get("negative_slope", node.attrs.get("alpha", 0.02)))


def _clip(x: Expr, t_min: float = -1.0, t_max: float = 1.0) -> Expr:
    return op.clip(x, t_min, t_max)


converts.functions({
    "elu": functions.elu, "celu": functions.celu, "gelu": functions.gelu, "hardtanh": _clip, "brelu": _clip,
    "leaky_relu": lambda node: op.nn.leaky_relu(node[0], alpha=_slope(node)),
    "pow": lambda node: op.power(node[0], node.number(1, "factor" if "factor" in node.attrs else "y", 1.0)),
    "clip": lambda node: op.clip(node[0], float(node.number(1, "min")), float(node.number(2, "max"))),
    "where": lambda node: op.where(node[0], node[1], node[2]),
    "add_n": lambda node: reduce(op.add, node.listed()),
    "numel": lambda node: idioms.constant(int(np.prod(node.fixed(), dtype=object)), "int64"),
    "cast": lambda node: idioms.cast(node[0], dtype_named(node, "dtype" if "dtype" in node.attrs else "out_dtype")),
    "full_with_tensor": lambda node: idioms.broadcast_to(
        idioms.cast(idioms.reshape(node[0], ()), dtype_named(node)), node.numbers(1, "shape")
    ),
    "full_like": lambda node: idioms.broadcast_to(
        idioms.constant(node.number(1, "value", 0.0), dtype_named(node, default=idioms.dtype_of(node[0]))), node.shape()
    ),
    # the extents, which must be known when the model is imported
    "shape": lambda node: idioms.constant(node.fixed(), "int32"),
    "shape64": lambda node: idioms.constant(node.fixed(), "int64"),
})  # fmt: skip


@converts("hardswish", "hardsigmoid")
def convert_hard(node: PaddleNode) -> Expr:
    """A line between 0 and 1, for hardswish times x."""
    x = node[0]
    if node.operator == "hardswish":
        offset, limit = float(node.attr("offset", 3.0)), float(node.attr("threshold", 6.0))
        return x * functions.linear(op.clip(x + offset, 0.0, limit), 1 / float(node.attr("scale", 6.0)))
    return op.clip(functions.linear(x, float(node.attr("slope", 0.2)), float(node.attr("offset", 0.5))), 0.0, 1.0)


@converts("softplus")
def convert_softplus(data: Expr, beta: float = 1.0, threshold: float = 20.0) -> Expr:
    x = functions.linear(data, beta)
    linear = x > threshold
    return op.where(linear, data, functions.linear(functions.softplus(x), 1 / beta))


@converts("hard_shrink", "hardshrink", "softshrink", "thresholded_relu")
def convert_shrink(node: PaddleNode, x: Expr, value: float = 0.0) -> Expr:
    """Zero near zero; softshrink moves the rest towards it."""
    limit = float(node.attrs.get("threshold", node.attrs.get("lambda", 0.5)))
    zero = idioms.like(0, x)
    if node.operator == "thresholded_relu":
        return op.where(x > limit, x, value)
    near = op.abs(x) <= limit
    kept = x if node.operator.startswith("hard") else x - functions.linear(op.sign(x), limit)
    return op.where(near, zero, kept)


@converts("prelu")
def convert_prelu(node: PaddleNode, x: Expr, slopes: Expr, data_format: str = "NCHW") -> Expr:
    """A slope for all, for each channel, or for each element."""
    mode = node.attr("mode", "all")
    if mode == "element":
        return op.where(x > 0, x, x * slopes)
    return idioms.prelu(x, slopes, idioms.rank_of(x) - 1 if data_format[-1] == "C" else 1)


@converts("softmax", "log_softmax")
def convert_softmax(node: PaddleNode, x: Expr, axis: Axis = -1) -> Expr:
    function = op.nn.softmax if node.operator == "softmax" else op.nn.log_softmax
    return function(x, axis=axis)


def dtype_named(node: PaddleNode, name: str = "dtype", default: str = "float32") -> str:
    """An element type that an attribute names, or numbers as old programs do."""
    value = node.attrs.get(name, default)
    if isinstance(value, int):
        names = {0: "bool", 1: "int16", 2: "int32", 3: "int64", 4: "float16", 5: "float32", 6: "float64", 20: "uint8",
                 21: "int8", 22: "bfloat16"}  # fmt: skip
        value = default if value == -1 else names.get(value, str(value))
    if value in ("undefined", "UNDEFINED"):
        return default
    if value not in DTYPES:
        node.unsupported(f"the element type {value} is not supported")
    return str(value)


@converts("full", "full_int_array", "assign_value", "assign_value_")
def convert_full(node: PaddleNode) -> Expr:
    """Numbers that stand in the program."""
    if node.operator == "full_int_array":
        return idioms.constant(node.attr("value", []), dtype_named(node, default="int64"))
    dtype = dtype_named(node)
    if node.operator.startswith("assign_value"):
        values = node.attrs.get("values")
        if values is None:
            values = next(
                (node.attrs[k] for k in ("fp32_values", "int32_values", "int64_values") if node.attrs.get(k)), []
            )
        flat = [item["D"] if isinstance(item, dict) else item for item in values]
        return idioms.constant(np.reshape(flat, node.numbers(9, "shape")), dtype)
    shape = node.numbers(9, "shape")
    text = node.attrs.get("str_value")
    value = float(text) if text else node.attr("value", 0.0)
    if isinstance(value, dict):
        value = value.get("D", 0)
    return idioms.broadcast_to(idioms.constant(value, dtype), shape)


@converts("arange")
def convert_arange(node: PaddleNode) -> Expr:
    start, end, step = (node.number(index, name) for index, name in enumerate(("start", "end", "step")))
    if step == 0 or abs((end - start) / step) > 1 << 24:
        node.bad(f"from {start} to {end} by {step}")
    return idioms.constant(np.arange(start, end, step), dtype_named(node, default=idioms.dtype_of(node[0])))


@converts("dropout")
def convert_dropout(node: PaddleNode) -> Expr:
    """Nothing outside of training, but for a factor in the mode that scales then."""
    mode = node.attrs.get("mode", node.attrs.get("dropout_implementation", "upscale_in_train"))
    if mode != "downgrade_in_infer":
        return node[0]
    return functions.linear(node[0], 1 - float(node.number(2, "p" if "p" in node.attrs else "dropout_prob", 0.5)))


_REDUCTIONS = {name: REDUCTIONS[name] for name in ("sum", "mean", "max", "min", "prod", "all", "any")} | {
    "amax": op.max, "amin": op.min, "logsumexp": REDUCTIONS["log_sum_exp"],
}  # fmt: skip


def _reduced_axes(node: PaddleNode) -> tuple[int, ...]:
    if node.attrs.get("reduce_all"):
        return tuple(range(node.rank()))
    name = next((name for name in ("axis", "dim", "dims") if name in node.attrs), "axis")
    axes = node.numbers(1, name, [])
    return tuple(sorted(node.axis(axis) for axis in axes)) or tuple(range(node.rank()))


@converts(*_REDUCTIONS)
def convert_reduction(node: PaddleNode) -> Expr:
    """Over axes, all of them where none are named."""
    keep = bool(node.attrs.get("keepdim", node.attrs.get("keep_dim", False)))
    data = node[0]
    if node.operator in ("all", "any"):
        data = idioms.cast(data, "bool")
    elif node.operator in ("sum", "mean") and idioms.dtype_of(data) == "bool":
        data = idioms.cast(data, "int64")
    return _REDUCTIONS[node.operator](data, axis=_reduced_axes(node), keepdims=keep)


@converts("p_norm", "norm")
def convert_norm(node: PaddleNode, x: Expr, axis: Axis = -1, epsilon: float = 1e-10) -> Expr:
    """Lengths along an axis; `norm` divides by them."""
    if node.operator == "norm":
        squares = op.sum(x * x, axis=(axis,), keepdims=True)
        return x / op.sqrt(squares + epsilon)
    power = float(node.attrs.get("porder", 2.0))
    keep = bool(node.attrs.get("keepdim", False))
    axes = tuple(range(node.rank())) if node.attrs.get("asvector") else (axis,)
    return p_norm(x, axes, power, keep)


@converts("argmax", "argmin")
def convert_positions(node: PaddleNode) -> Expr:
    """The position of the greatest or least."""
    function: Any = op.argmax if node.operator == "argmax" else op.argmin
    data, axis = idioms.along_axis(node[0], None if node.attrs.get("flatten") else node.number(1, "axis", -1))
    dtype = dtype_named(node, default="int64")
    keep = bool(node.attrs.get("keepdims", node.attrs.get("keepdim", False)))
    return idioms.cast(function(data, axis=axis, keepdims=keep, dtype="int32"), dtype)


@converts("topk")
def convert_topk(node: PaddleNode, x: Expr, axis: Axis = -1) -> list[Expr]:
    count = int(node.number(1, "k", 1))
    return idioms.outputs(op.topk(x, k=count, axis=axis, is_ascend=not node.attr("largest", True), dtype="int64"))


@converts("argsort")
def convert_argsort(node: PaddleNode, x: Expr, axis: Axis = -1) -> list[Expr]:
    ascending = not node.attrs.get("descending", False)
    positions = op.argsort(x, axis=axis, is_ascend=ascending, dtype="int64")
    return [op.sort(x, axis=axis, is_ascend=ascending), positions]


@converts("cumsum")
def convert_cumsum(node: PaddleNode) -> Expr:
    data, axis = idioms.along_axis(node[0], None if node.attrs.get("flatten") else node.number(1, "axis", -1))
    exclusive, reverse = (bool(node.attrs.get(name, False)) for name in ("exclusive", "reverse"))
    return op.cumsum(data, axis=axis, exclusive=exclusive, reverse=reverse)
