"""Operations of one element at a time, and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.reductions import REDUCTIONS
from tilewright.frontend.coreml.node import MilNode, converts
from tilewright.frontend.idioms import broadcast_to, cast, constant, dtype_of, like, rank_of, reshape, shape_of
from tilewright.frontend.signature import Ints
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


@converts("inverse", "log", "rsqrt")
def convert_with_epsilon(node: MilNode) -> Expr:
    """Functions that add a small number to their operand first."""
    x = node.arg() + node.number("epsilon", 0.0)
    if node.operator == "log":
        return op.log(x)
    return op.rsqrt(x) if node.operator == "rsqrt" else 1 / x


@converts("clip")
def convert_clip(x: Expr, alpha: float, beta: float) -> Expr:
    return op.clip(x, alpha, beta)


@converts("threshold")
def convert_threshold(x: Expr, alpha: float) -> Expr:
    """max(x, alpha)."""
    return op.maximum(x, alpha)


@converts("thresholded_relu")
def convert_thresholded_relu(x: Expr, alpha: float = 1.0) -> Expr:
    """x where it is at least alpha, 0 else."""
    return op.where(x >= alpha, x, 0)


converts.functions({
    "leaky_relu": functions.leaky_relu, "elu": functions.elu, "linear_activation": functions.linear,
    "scaled_tanh": functions.scaled_tanh, "sigmoid_hard": functions.hard_linear,
})  # fmt: skip


@converts("clamped_relu")
def convert_clamped_relu(x: Expr, alpha: float = 1.0, beta: float = 1.0) -> Expr:
    """Leaky below zero, at most beta."""
    return op.minimum(op.nn.leaky_relu(x, alpha=alpha), beta)


@converts("gelu")
def convert_gelu(x: Expr, mode: str = "EXACT") -> Expr:
    """Exact, or by tanh or the logistic function."""
    if mode == "SIGMOID_APPROXIMATION":
        return x * op.sigmoid(x * 1.702)
    return functions.gelu(x, mode == "TANH_APPROXIMATION")


@converts("prelu")
def convert_prelu(x: Expr, alpha: Expr) -> Expr:
    """A slope a channel."""
    return op.nn.prelu(x, alpha, axis=1)


@converts("softplus_parametric")
def convert_softplus_parametric(node: MilNode) -> Expr:
    """alpha * log(1 + exp(beta * x)), with factors a channel."""
    x = node.arg()
    spread = (1, -1, *[1] * (rank_of(x) - 2))
    alpha, beta = (constant(node.array(name).reshape(spread), dtype_of(x)) for name in ("alpha", "beta"))
    inner = x * beta
    return functions.softplus(inner) * alpha


@converts("softmax")
def convert_softmax(node: MilNode, x: Expr, axis: int = -1) -> Expr:
    return op.nn.softmax(x, axis=node.axis(axis, rank_of(x)))


_CASTS = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bool": "bool"}


@converts("cast")
def convert_cast(node: MilNode, x: Expr, dtype: str) -> Expr:
    """To the element type of a name such as fp16 or int32."""
    target = _CASTS.get(dtype, dtype)
    if target not in (*_CASTS.values(), "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
        node.unsupported(f"the element type {dtype!r} is not supported")
    return cast(x, target)


@converts("select")
def convert_select(cond: Expr, a: Expr, b: Expr) -> Expr:
    """a where the condition holds, b else."""
    return op.where(cond, a, b)


_REDUCTIONS = {f"reduce_{name}": REDUCTIONS[name] for name in ("sum", "mean", "max", "min", "prod", "sum_square")} | {
    "reduce_l1_norm": REDUCTIONS["l1"], "reduce_l2_norm": REDUCTIONS["l2"], "reduce_log_sum": REDUCTIONS["log_sum"],
    "reduce_log_sum_exp": REDUCTIONS["log_sum_exp"],
}  # fmt: skip


@converts(*_REDUCTIONS)
def convert_reduction(node: MilNode, x: Expr, keep_dims: bool = False) -> Expr:
    """Over axes, all of them where none are named."""
    return _REDUCTIONS[node.operator](x, axis=node.axes(), keepdims=keep_dims)


@converts("reduce_argmax", "reduce_argmin")
def convert_positions(node: MilNode) -> Expr:
    """The position of the greatest or least along an axis, int32."""
    function = op.argmax if node.operator == "reduce_argmax" else op.argmin
    axis = node.axis(node.number("axis", -1), rank_of(node.arg()))
    return function(node.arg(), axis=axis, keepdims=bool(node.number("keep_dims", False)), dtype="int32")


@converts("cumsum")
def convert_cumsum(node: MilNode) -> Expr:
    axis = node.axis(node.number("axis", 0), rank_of(node.arg()))
    return op.cumsum(
        node.arg(), axis=axis, exclusive=bool(node.number("exclusive", False)),
        reverse=bool(node.number("reverse", False)),
    )  # fmt: skip


@converts("dequantize", "constexpr_affine_dequantize")
def convert_dequantize(node: MilNode) -> Expr:
    """(x - zero point) * scale."""
    x = node.arg("input") if node.operator == "dequantize" else node.arg("quantized_data")
    scale = node.arg("scale")
    moved = cast(x, dtype_of(scale))
    if node.has_arg("zero_point"):
        moved = moved - _on_axis(node, cast(node.arg("zero_point"), dtype_of(scale)), x)
    return moved * _on_axis(node, scale, x)


@converts("quantize")
def convert_quantize(node: MilNode, scale: Expr, output_dtype: str) -> Expr:
    """round(x / scale) + zero point, within the element type."""
    x, target = node.arg("input"), output_dtype
    low, high = {"int8": (-128, 127), "uint8": (0, 255)}.get(target, (0, 0))
    if not high:
        node.unsupported(f"the element type {target!r} is not supported")
    made: Expr = op.round(x / _on_axis(node, scale, x))
    if node.has_arg("zero_point"):
        made = made + _on_axis(node, cast(node.arg("zero_point"), dtype_of(made)), x)
    return cast(op.clip(made, low, high), target)


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
        node.bad(f"{indices.size} bytes of indices for {count} places of {bits} bits")
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
        node.bad(f"{values.size} values for {int(bits.sum())} places of {count}")
    dense = np.zeros(count, values.dtype)
    dense[bits != 0] = values.reshape(-1)
    return constant(dense.reshape(shape), str(values.dtype))


@converts("fill")
def convert_fill(value: Expr, shape: Ints) -> Expr:
    """A tensor of one number."""
    return broadcast_to(value, shape)


@converts("scaled_dot_product_attention")
def convert_attention(node: MilNode) -> Expr:
    """softmax(q k / sqrt(d) + mask) v."""
    query, key, value = (node.arg(name) for name in ("query", "key", "value"))
    scores = functions.linear(product(query, key, transpose_b=True), float(shape_of(query)[-1]) ** -0.5)
    if node.has_arg("attn_mask"):
        mask = node.arg("attn_mask")
        if dtype_of(mask) == "bool":
            scores = op.where(mask, scores, like(-np.inf, scores))
        else:
            scores = scores + mask
    return product(op.nn.softmax(scores, axis=-1), value)


def product(a: Expr, b: Expr, transpose_a: bool = False, transpose_b: bool = False) -> Expr:
    """The matrix product of the last two axes; those before broadcast."""
    if rank_of(a) == 2 and rank_of(b) == 2:
        return op.nn.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    outer = np.broadcast_shapes(shape_of(a)[:-2], shape_of(b)[:-2])
    count = int(np.prod(outer, dtype=object))
    flat = [
        reshape(broadcast_to(value, (*outer, *shape_of(value)[-2:])), (count, *shape_of(value)[-2:]))
        for value in (a, b)
    ]
    made = op.nn.batch_matmul(flat[0], flat[1], transpose_a=transpose_a, transpose_b=transpose_b)
    return reshape(made, (*outer, *shape_of(made)[1:]))
