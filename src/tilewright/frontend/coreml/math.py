"""Operations of one element at a time, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.converters import Converter
from tilewright.frontend.coreml.node import MilNode, converts
from tilewright.frontend.idioms import along, broadcast_to, cast, constant, dtype_of, rank_of, reshape, shape_of
from tilewright.frontend.signature import Axes, Axis, Ints
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

# Functions of one operand.
converts.unary({
    "abs": op.abs, "acos": op.acos, "asin": op.asin, "atan": op.atan, "atanh": op.atanh, "ceil": op.ceil,
    "cos": op.cos, "cosh": op.cosh, "erf": op.erf, "exp": op.exp, "floor": op.floor, "logical_not": op.logical_not,
    "relu": op.nn.relu, "round": op.round, "sigmoid": op.sigmoid, "sign": op.sign, "sin": op.sin, "sinh": op.sinh,
    "sqrt": op.sqrt, "tan": op.tan, "tanh": op.tanh,
    "exp2": lambda x: op.power(2, x),
    "square": lambda x: x * x,
    "relu6": functions.relu6,
    "silu": functions.silu,
    "softplus": functions.softplus,
    "softsign": functions.softsign,
    "identity": lambda x: x,
})  # fmt: skip

# Functions of two operands, which broadcast.
converts.binary({
    "add": op.add, "sub": op.subtract, "mul": op.multiply, "maximum": op.maximum, "minimum": op.minimum,
    "pow": op.power, "floor_div": op.floor_divide, "mod": op.floor_mod, "equal": op.equal, "not_equal": op.not_equal,
    "greater": op.greater, "greater_equal": op.greater_equal, "less": op.less, "less_equal": op.less_equal,
    "logical_and": op.logical_and, "logical_or": op.logical_or, "logical_xor": op.logical_xor,
})  # fmt: skip


@converts("real_div")
def convert_real_div(x: Expr, y: Expr) -> Expr:
    """A quotient; of integers as a float."""
    if dtype_of(x).startswith(("int", "uint")):
        x, y = cast(x, "float32"), cast(y, "float32")
    return x / y


def _clip(x: Expr, alpha: float, beta: float) -> Expr:
    """`x` within alpha … beta."""
    return op.clip(x, alpha, beta)


def thresholded_relu(x: Expr, alpha: float = 1.0) -> Expr:
    """x where it is at least alpha, 0 else."""
    return op.where(x >= alpha, x, 0)


def _gelu(x: Expr, mode: str = "EXACT") -> Expr:
    """Exact, or by tanh or the logistic function."""
    if mode == "SIGMOID_APPROXIMATION":
        return x * op.sigmoid(x * 1.702)
    return functions.gelu(x, mode == "TANH_APPROXIMATION")


converts.functions({
    "leaky_relu": functions.leaky_relu, "elu": functions.elu, "linear_activation": functions.linear,
    "scaled_tanh": functions.scaled_tanh, "sigmoid_hard": functions.hard_linear, "clip": _clip, "gelu": _gelu,
    "thresholded_relu": thresholded_relu,
})  # fmt: skip
converts.schemas({
    "threshold": lambda x, alpha=0.0: op.maximum(x, alpha),
    "clamped_relu": lambda x, alpha=1.0, beta=1.0: op.minimum(op.nn.leaky_relu(x, alpha=alpha), beta),
    "log": lambda x, epsilon=0.0: op.log(x + epsilon), "rsqrt": lambda x, epsilon=0.0: op.rsqrt(x + epsilon),
    "inverse": lambda x, epsilon=0.0: 1 / (x + epsilon), "prelu": lambda x, alpha: op.nn.prelu(x, alpha, axis=1),
    "softmax": lambda x, axis=-1: op.nn.softmax(x, axis=axis), "select": lambda cond, a, b: op.where(cond, a, b),
    "cumsum": lambda x, axis=0, exclusive=False, reverse=False: op.cumsum(
        x, axis=axis, exclusive=exclusive, reverse=reverse
    ),
})  # fmt: skip


@converts("softplus_parametric")
def convert_softplus_parametric(node: MilNode, x: Expr) -> Expr:
    """alpha * log(1 + exp(beta * x)), with factors a channel."""
    alpha, beta = (along(node.array(name), 1, rank_of(x), dtype_of(x)) for name in ("alpha", "beta"))
    return functions.softplus(x * beta) * alpha


_CASTS = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bool": "bool"}


@converts("cast")
def convert_cast(node: MilNode, x: Expr, dtype: str) -> Expr:
    """To the element type of a name such as fp16 or int32."""
    target = _CASTS.get(dtype, dtype)
    if target not in (*_CASTS.values(), "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
        node.unsupported(f"the element type {dtype!r} is not supported")
    return cast(x, target)


def _reducing(name: str) -> Converter:
    """The converter of the reduction `name` over axes, all of them where none are named."""

    def convert(x: Expr, axes: Axes | None = None, keep_dims: bool = False) -> Expr:
        return REDUCTIONS[name](x, axis=axes or range(rank_of(x)), keepdims=keep_dims)

    return convert


converts.functions({f"reduce_{name}": _reducing(name) for name in REDUCTIONS if name not in ("l1", "l2", "all", "any")})
converts.functions({"reduce_l1_norm": _reducing("l1"), "reduce_l2_norm": _reducing("l2")})


def _position_of(function: Callable[..., Expr]) -> Converter:
    """The converter of the position of the greatest or least element along an axis, int32."""

    def convert(x: Expr, axis: Axis = -1, keep_dims: bool = False) -> Expr:
        return function(x, axis=axis, keepdims=keep_dims, dtype="int32")

    return convert


converts.functions({"reduce_argmax": _position_of(op.argmax), "reduce_argmin": _position_of(op.argmin)})


@converts("dequantize", "constexpr_affine_dequantize")
def convert_dequantize(node: MilNode, scale: Expr, zero_point: Expr | None = None) -> Expr:
    """(x - zero point) * scale."""
    x = node.arg("input" if node.operator == "dequantize" else "quantized_data")
    moved = cast(x, dtype_of(scale))
    if zero_point is not None:
        moved = moved - _on_axis(node, cast(zero_point, dtype_of(scale)), x)
    return moved * _on_axis(node, scale, x)


@converts("quantize")
def convert_quantize(
    node: MilNode, input_: Expr, scale: Expr, output_dtype: str, zero_point: Expr | None = None
) -> Expr:
    """round(x / scale) + zero point, within the element type."""
    low, high = {"int8": (-128, 127), "uint8": (0, 255)}.get(output_dtype, (0, 0))
    if not high:
        node.unsupported(f"the element type {output_dtype!r} is not supported")
    made: Expr = op.round(input_ / _on_axis(node, scale, input_))
    if zero_point is not None:
        made = made + _on_axis(node, cast(zero_point, dtype_of(made)), input_)
    return cast(op.clip(made, low, high), output_dtype)


def _on_axis(node: MilNode, values: Expr, x: Expr) -> Expr:
    if not shape_of(values):
        return values
    axis = node.axis(node.number("axis", 0), rank_of(x))
    return reshape(values, [shape_of(x)[axis] if position == axis else 1 for position in range(rank_of(x))])


@converts("constexpr_cast")
def convert_constexpr_cast(source_val: Expr, output_dtype: str) -> Expr:
    """Weights kept in another element type."""
    return cast(source_val, _CASTS.get(output_dtype, "float32"))


@converts("constexpr_lut_to_dense")
def convert_lut(node: MilNode, shape: Ints) -> Expr:
    """Weights kept as positions in a table; of old programs, packed with as few bits as the table needs."""
    indices, table = node.array("indices"), node.array("lut")
    if not node.has_arg("shape"):
        node.unsupported("tables of iOS 18 are not supported")
    count, bits = int(np.prod(shape, dtype=object)), int(table.size - 1).bit_length()
    if indices.size * 8 < count * bits:
        node.bad(f"{indices.size} bytes of indices for {count} positions of {bits} bits")
    if bits == 8:
        positions: Any = indices[:count]
    else:
        unpacked = np.unpackbits(indices.astype(np.uint8), bitorder="little")[: count * bits].reshape(count, bits)
        positions = unpacked.astype(np.int64) @ (1 << np.arange(bits))
    return constant(table[positions.astype(np.int64)].reshape(shape), str(table.dtype))


@converts("constexpr_sparse_to_dense")
def convert_sparse(node: MilNode, shape: Ints) -> Expr:
    """Weights of which only those that are not zero are kept, with a bit for each position."""
    values, mask = node.array("nonzero_data"), node.array("mask")
    if not node.has_arg("shape"):
        node.unsupported("masks of iOS 18 are not supported")
    count = int(np.prod(shape, dtype=object))
    bits = np.unpackbits(mask.astype(np.uint8), bitorder="little")[:count]
    if bits.size != count or int(bits.sum()) != values.size:
        node.bad(f"{values.size} values for {int(bits.sum())} positions of {count}")
    dense = np.zeros(count, values.dtype)
    dense[bits != 0] = values.reshape(-1)
    return constant(dense.reshape(shape), str(values.dtype))


@converts("fill")
def convert_fill(value: Expr, shape: Ints) -> Expr:
    """A tensor of one number."""
    return broadcast_to(value, shape)


@converts("scaled_dot_product_attention")
def convert_attention(query: Expr, key: Expr, value: Expr, attn_mask: Expr | None = None) -> Expr:
    """softmax(q k / sqrt(d) + mask) v."""
    scores = functions.linear(matmul(query, key, transpose_right=True), float(shape_of(query)[-1]) ** -0.5)
    if attn_mask is not None and dtype_of(attn_mask) == "bool":
        scores = op.where(attn_mask, scores, -np.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return matmul(op.nn.softmax(scores, axis=-1), value)
