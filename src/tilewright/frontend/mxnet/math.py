"""Operators of one element at a time, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.idioms import (
    along_axis,
    broadcast_to,
    cast,
    constant,
    dtype_of,
    like,
    prelu,
    rank_of,
    reshape,
    shape_of,
)
from tilewright.frontend.mxnet.node import MxnetNode, converts
from tilewright.frontend.signature import Axis
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

# Functions of one operand; of a loss, what it is taken of.
converts.unary({
    "relu": op.nn.relu, "sigmoid": op.sigmoid, "tanh": op.tanh, "exp": op.exp, "log": op.log,
    "softsign": functions.softsign,
    "log2": op.log2, "log10": op.log10, "log1p": op.log1p, "expm1": op.expm1, "sqrt": op.sqrt, "rsqrt": op.rsqrt,
    "abs": op.abs, "sign": op.sign, "floor": op.floor, "ceil": op.ceil, "trunc": op.trunc, "fix": op.trunc,
    "rint": op.round, "erf": op.erf, "negative": op.negative, "sin": op.sin, "cos": op.cos, "tan": op.tan,
    "arcsin": op.asin, "arccos": op.acos, "arctan": op.atan, "sinh": op.sinh, "cosh": op.cosh, "arcsinh": op.asinh,
    "arccosh": op.acosh, "arctanh": op.atanh, "zeros_like": op.zeros_like, "ones_like": op.ones_like,
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "cbrt": lambda x: op.sign(x) * op.power(op.abs(x), 1 / 3),
    "rcbrt": lambda x: op.sign(x) / op.power(op.abs(x), 1 / 3),
    "logical_not": lambda x: cast(op.equal(x, 0), dtype_of(x)),
    "round": lambda x: op.sign(x) * op.floor(op.abs(x) + 0.5),
    "degrees": lambda x: functions.linear(x, 180 / np.pi), "radians": lambda x: functions.linear(x, np.pi / 180),
    **dict.fromkeys(("_copy", "identity", "BlockGrad", "stop_gradient", "MakeLoss", "make_loss", "Dropout",
                     "LinearRegressionOutput", "MAERegressionOutput", "_identity_with_attr_like_rhs"),
                    lambda x: x),
    "LogisticRegressionOutput": op.sigmoid,
})  # fmt: skip


_ACTIVATIONS = {
    "relu": op.nn.relu, "sigmoid": op.sigmoid, "tanh": op.tanh, "softrelu": functions.softplus,
    "softsign": functions.softsign,
}  # fmt: skip


@converts("Activation")
def convert_activation(node: MxnetNode, x: Expr, act_type: str) -> Expr:
    if act_type not in _ACTIVATIONS:
        node.unsupported(f"the activation {act_type!r} is not supported")
    return _ACTIVATIONS[act_type](x)


@converts("LeakyReLU")
def convert_leaky_relu(
    node: MxnetNode, x: Expr, act_type: str = "leaky", slope: float = 0.25, lower_bound: float = 0.125,
    upper_bound: float = 0.334,
) -> Expr:  # fmt: skip
    """Leaky, with learned slopes, or one of three smooth functions."""
    if act_type == "leaky":
        return op.nn.leaky_relu(x, alpha=slope)
    if act_type == "rrelu":  # outside of training, the mean of the slopes that are drawn
        return op.nn.leaky_relu(x, alpha=(lower_bound + upper_bound) / 2)
    if act_type == "prelu":
        return prelu(x, node[1])
    if act_type == "gelu":
        return functions.gelu(x)
    if act_type not in ("elu", "selu"):
        node.unsupported(f"the function {act_type!r} is not supported")
    return functions.elu(x, slope) if act_type == "elu" else functions.selu(x)


def _clip(x: Expr, a_min: float, a_max: float) -> Expr:
    return op.clip(x, a_min, a_max)


converts.functions({
    "hard_sigmoid": functions.hard_linear, "clip": _clip,
    **dict.fromkeys(("add_n", "ElementWiseSum"), lambda node: reduce(op.add, node.given())),
    "_grad_add": lambda node: node[0] + node[1],
})  # fmt: skip
_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": op.add, "plus": op.add, "sub": op.subtract, "minus": op.subtract, "mul": op.multiply, "div": op.divide,
    "mod": op.floor_mod, "power": op.power, "maximum": op.maximum, "minimum": op.minimum,
    "hypot": functions.hypot,
}  # fmt: skip
_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "equal": op.equal, "not_equal": op.not_equal, "greater": op.greater, "greater_equal": op.greater_equal,
    "lesser": op.less, "lesser_equal": op.less_equal,
    "logical_and": lambda a, b: op.logical_and(op.not_equal(a, 0), op.not_equal(b, 0)),
    "logical_or": lambda a, b: op.logical_or(op.not_equal(a, 0), op.not_equal(b, 0)),
    "logical_xor": lambda a, b: op.logical_xor(op.not_equal(a, 0), op.not_equal(b, 0)),
}  # fmt: skip


def _binary(name: str, a: Expr, b: Expr) -> Expr:
    """Comparisons, as numbers of the type of their operands."""
    if name in _BINARY:
        return _BINARY[name](a, b)
    return cast(_COMPARISONS[name](a, b), dtype_of(a))


def _stem(operator: str) -> tuple[str, bool]:
    """The function that an operator's name holds, and whether its operands are in reverse."""
    name = (
        operator.lower().removeprefix("broadcast_").removeprefix("elemwise_").removeprefix("_").removesuffix("_scalar")
    )
    if name[:1] == "r" and name[1:] in _BINARY:
        return name[1:], True
    return name, False


_EVERY = (*_BINARY, *_COMPARISONS)


@converts(*(f"{prefix}{name}" for name in _EVERY for prefix in ("broadcast_", "elemwise_", "_")))
def convert_binary(node: MxnetNode) -> Expr:
    """Functions of two operands, which broadcast."""
    return _binary(_stem(node.operator)[0], node[0], node[1])


@converts(*(f"_{name}_scalar" for name in _EVERY), *(f"_r{name}_scalar" for name in _BINARY))
def convert_with_number(node: MxnetNode, x: Expr, scalar: float) -> Expr:
    """Functions of an operand and a number."""
    name, reverse = _stem(node.operator)
    number = like(scalar, x)
    return _binary(name, number, x) if reverse else _binary(name, x, number)


@converts("smooth_l1")
def convert_smooth_l1(x: Expr, scalar: float = 1.0) -> Expr:
    scale = scalar**2
    near = functions.linear(x * x, 0.5 * scale)
    far = op.abs(x) - 0.5 / scale
    return op.where(op.abs(x) < 1 / scale, near, far)


@converts("Cast", "cast", "amp_cast")
def convert_cast(node: MxnetNode, x: Expr, dtype: str) -> Expr:
    return cast(x, _dtype(node, dtype))


def _dtype(node: MxnetNode, name: str) -> str:
    if name not in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool"):
        node.unsupported(f"the element type {name!r} is not supported")
    return name


@converts("where")
def convert_where(node: MxnetNode) -> Expr:
    condition = op.not_equal(node[0], 0)
    if node.rank(0) == 1 and node.rank(1) > 1:
        condition = reshape(condition, (*shape_of(condition), *[1] * (node.rank(1) - 1)))
    return op.where(condition, node[1], node[2])


@converts("softmax", "log_softmax", "softmin")
def convert_softmax(
    node: MxnetNode, data: Expr, axis: Axis = -1, temperature: float = 1.0, use_length: bool = False
) -> Expr:
    if use_length:
        node.unsupported("lengths of sequences are not supported")
    if temperature != 1:
        data = functions.linear(data, 1 / temperature)
    if node.operator == "log_softmax":
        return op.nn.log_softmax(data, axis=axis)
    return op.nn.softmax(-data if node.operator == "softmin" else data, axis=axis)


@converts("SoftmaxOutput", "Softmax", "SoftmaxActivation")
def convert_softmax_output(
    node: MxnetNode, multi_output: bool = False, mode: str = "instance", preserve_shape: bool = False
) -> Expr:
    """Over the channels of every position on request, else over all that follow the batch."""
    channels = multi_output or mode == "channel"
    if channels or preserve_shape or node.rank() == 2:
        return op.nn.softmax(node[0], axis=1 if channels else -1)
    batch, rest = node.shape()[0], int(np.prod(node.fixed()[1:], dtype=object))
    return reshape(op.nn.softmax(reshape(node[0], (batch, rest)), axis=1), node.shape())


_REDUCTIONS = {name: REDUCTIONS[name] for name in ("sum", "mean", "max", "min", "prod")}


@converts(*_REDUCTIONS, "sum_axis", "max_axis", "min_axis")
def convert_reduction(node: MxnetNode, x: Expr, exclude: bool = False, keepdims: bool = False) -> Expr:
    """Over axes, or all others; what is left of a tensor of no axes has one element."""
    axes = node.axes("axis", exclude)
    made = _REDUCTIONS[node.operator.removesuffix("_axis")](x, axis=axes, keepdims=keepdims)
    return reshape(made, (1,)) if not shape_of(made) else made


@converts("norm")
def convert_norm(node: MxnetNode, keepdims: bool = False, ord: int = 2) -> Expr:
    axes = node.axes()
    made = REDUCTIONS["l1" if ord == 1 else "l2"](node[0], axis=axes, keepdims=keepdims)
    return reshape(made, (1,)) if not shape_of(made) else made


@converts("argmax", "argmin", "argmax_channel")
def convert_positions(node: MxnetNode, keepdims: bool = False) -> Expr:
    """The positions of the greatest or least, as floats."""
    function: Any = op.argmin if node.operator == "argmin" else op.argmax
    axis = 1 if node.operator == "argmax_channel" else node.attr("axis")
    data, position = along_axis(node[0], axis)
    made = cast(function(data, axis=position, keepdims=keepdims, dtype="int32"), "float32")
    return reshape(made, (1,)) if not shape_of(made) else made


@converts("topk")
def convert_topk(node: MxnetNode) -> list[Expr]:
    """Values, positions, or both."""
    axis, kind = node.axis(int(node.attr("axis", -1))), str(node.attr("ret_typ", "indices"))
    dtype = _dtype(node, str(node.attr("dtype", "float32")))
    count = int(node.attr("k", 1)) or node.fixed()[axis]
    found = op.topk(node[0], k=count, axis=axis, is_ascend=node.flag("is_ascend"), dtype="int32")
    values, positions = found[0], cast(found[1], dtype)
    if kind not in ("value", "indices", "both"):
        node.unsupported(f"ret_typ={kind} is not supported")
    return [values, positions] if kind == "both" else [values if kind == "value" else positions]


@converts("sort", "argsort")
def convert_sort(node: MxnetNode, axis: Axis = -1, is_ascend: bool = True, dtype: str = "float32") -> Expr:
    if node.operator == "sort":
        return op.sort(node[0], axis=axis, is_ascend=is_ascend)
    return cast(op.argsort(node[0], axis=axis, is_ascend=is_ascend, dtype="int32"), _dtype(node, dtype))


@converts("_zeros", "_ones", "_full", "_arange")
def convert_numbers(node: MxnetNode) -> Expr:
    """Tensors that stand in the graph."""
    dtype = _dtype(node, str(node.attr("dtype", "float32")))
    if node.operator == "_arange":
        start, stop, step = float(node.attr("start", 0.0)), node.attr("stop"), float(node.attr("step", 1.0))
        if stop is None:
            start, stop = 0.0, start
        if step == 0 or abs((float(stop) - start) / step) > 1 << 24:
            node.bad(f"from {start} to {stop} by {step}")
        return constant(np.arange(start, float(stop), step).repeat(int(node.attr("repeat", 1))), dtype)
    value = {"_zeros": 0.0, "_ones": 1.0}.get(node.operator)
    return broadcast_to(constant(float(node.needed("value")) if value is None else value, dtype), node.numbers("shape"))


@converts("dot", "batch_dot", "_linalg_gemm2")
def convert_dot(
    node: MxnetNode, a: Expr, b: Expr, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0
) -> Expr:
    """The last axis of one times the first of the other; of batches, matrix by matrix."""
    if rank_of(a) != rank_of(b) or rank_of(a) != (2 if node.operator == "dot" else 3):
        node.unsupported(f"a product of {rank_of(a)} and {rank_of(b)} axes is not supported")
    product = op.nn.matmul if node.operator == "dot" else op.nn.batch_matmul
    made = product(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return functions.linear(made, alpha) if "alpha" in node.attrs else made
