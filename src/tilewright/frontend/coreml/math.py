"""Operations of one element at a time, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend import functions
from tilewright.frontend.coreml.node import MilNode
from tilewright.frontend.coreml.registry import converts
from tilewright.frontend.idioms import broadcast_to, cast, constant, dtype_of, like, rank_of, reshape, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_UNARY: dict[str, Callable[[Expr], Expr]] = {
    "abs": op.abs, "acos": op.acos, "asin": op.asin, "atan": op.atan, "atanh": op.atanh, "ceil": op.ceil,
    "cos": op.cos, "cosh": op.cosh, "erf": op.erf, "exp": op.exp, "floor": op.floor, "logical_not": op.logical_not,
    "relu": op.nn.relu, "round": op.round, "sigmoid": op.sigmoid, "sign": op.sign, "sin": op.sin, "sinh": op.sinh,
    "sqrt": op.sqrt, "tan": op.tan, "tanh": op.tanh,
    "exp2": lambda x: op.power(like(2, x), x),
    "square": lambda x: op.multiply(x, x),
    "relu6": functions.relu6,
    "silu": functions.silu,
    "softplus": functions.softplus,
    "softsign": functions.softsign,
    "identity": lambda x: x,
}  # fmt: skip

_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": op.add, "sub": op.subtract, "mul": op.multiply, "maximum": op.maximum, "minimum": op.minimum,
    "pow": op.power, "floor_div": op.floor_divide, "mod": op.floor_mod, "equal": op.equal, "not_equal": op.not_equal,
    "greater": op.greater, "greater_equal": op.greater_equal, "less": op.less, "less_equal": op.less_equal,
    "logical_and": op.logical_and, "logical_or": op.logical_or, "logical_xor": op.logical_xor,
}  # fmt: skip


@converts(*_UNARY)
def convert_unary(node: MilNode) -> Expr:
    """Functions of one operand."""
    return _UNARY[node.operator](node.arg())


@converts(*_BINARY)
def convert_binary(node: MilNode) -> Expr:
    """Functions of two operands, which broadcast."""
    return _BINARY[node.operator](node.arg("x"), node.arg("y"))


@converts("real_div")
def convert_real_div(node: MilNode) -> Expr:
    """A quotient; of integers as a float."""
    x, y = node.arg("x"), node.arg("y")
    if dtype_of(x).startswith(("int", "uint")):
        x, y = cast(x, "float32"), cast(y, "float32")
    return op.divide(x, y)


def _scaled(x: Expr, alpha: float, beta: float = 0.0) -> Expr:
    made = op.multiply(x, like(alpha, x))
    return made if beta == 0 else op.add(made, like(beta, x))


@converts("inverse", "log", "rsqrt")
def convert_with_epsilon(node: MilNode) -> Expr:
    """Functions that add a small number to their operand first."""
    x = op.add(node.arg(), like(node.number("epsilon", 0.0), node.arg()))
    if node.operator == "log":
        return op.log(x)
    return op.rsqrt(x) if node.operator == "rsqrt" else op.divide(like(1, x), x)


@converts("clip")
def convert_clip(node: MilNode) -> Expr:
    return op.clip(node.arg(), node.number("alpha"), node.number("beta"))


@converts("threshold")
def convert_threshold(node: MilNode) -> Expr:
    """max(x, alpha)."""
    return op.maximum(node.arg(), like(node.number("alpha"), node.arg()))


@converts("thresholded_relu")
def convert_thresholded_relu(node: MilNode) -> Expr:
    """x where it is at least alpha, 0 else."""
    x = node.arg()
    return op.where(op.greater_equal(x, like(node.number("alpha", 1.0), x)), x, like(0, x))


@converts("leaky_relu")
def convert_leaky_relu(node: MilNode) -> Expr:
    return op.nn.leaky_relu(node.arg(), alpha=node.number("alpha", 0.01))


@converts("clamped_relu")
def convert_clamped_relu(node: MilNode) -> Expr:
    """Leaky below zero, at most beta."""
    x = op.nn.leaky_relu(node.arg(), alpha=node.number("alpha", 1.0))
    return op.minimum(x, like(node.number("beta", 1.0), x))


@converts("elu")
def convert_elu(node: MilNode) -> Expr:
    return functions.elu(node.arg(), node.number("alpha", 1.0))


@converts("linear_activation", "scaled_tanh", "sigmoid_hard")
def convert_scaled(node: MilNode) -> Expr:
    """alpha * x + beta; alpha * tanh(beta * x); that line between 0 and 1."""
    x = node.arg()
    if node.operator == "scaled_tanh":
        return _scaled(op.tanh(_scaled(x, node.number("beta", 1.0))), node.number("alpha", 1.0))
    hard = node.operator == "sigmoid_hard"
    line = _scaled(x, node.number("alpha", 0.2 if hard else 1.0), node.number("beta", 0.5 if hard else 0.0))
    return op.clip(line, 0.0, 1.0) if hard else line


@converts("gelu")
def convert_gelu(node: MilNode) -> Expr:
    """Exact, or by tanh or the logistic function."""
    x, mode = node.arg(), node.text("mode", "EXACT")
    if mode == "SIGMOID_APPROXIMATION":
        return op.multiply(x, op.sigmoid(_scaled(x, 1.702)))
    return functions.gelu(x, mode == "TANH_APPROXIMATION")


@converts("prelu")
def convert_prelu(node: MilNode) -> Expr:
    """A slope a channel."""
    return op.nn.prelu(node.arg(), node.arg("alpha"), axis=1)


@converts("softplus_parametric")
def convert_softplus_parametric(node: MilNode) -> Expr:
    """alpha * log(1 + exp(beta * x)), with factors a channel."""
    x = node.arg()
    spread = (1, -1, *[1] * (rank_of(x) - 2))
    alpha, beta = (constant(node.array(name).reshape(spread), dtype_of(x)) for name in ("alpha", "beta"))
    inner = op.multiply(x, beta)
    return op.multiply(functions.softplus(inner), alpha)


@converts("softmax")
def convert_softmax(node: MilNode) -> Expr:
    return op.nn.softmax(node.arg(), axis=node.axis(node.number("axis", -1), rank_of(node.arg())))


_CASTS = {"fp16": "float16", "fp32": "float32", "fp64": "float64", "bool": "bool"}


@converts("cast")
def convert_cast(node: MilNode) -> Expr:
    """To the element type of a name such as fp16 or int32."""
    name = node.text("dtype")
    target = _CASTS.get(name, name)
    if target not in (*_CASTS.values(), "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
        node.unsupported(f"the element type {name!r} is not supported")
    return cast(node.arg(), target)


@converts("select")
def convert_select(node: MilNode) -> Expr:
    """a where the condition holds, b else."""
    return op.where(node.arg("cond"), node.arg("a"), node.arg("b"))


def _sum_of(function: Callable[[Expr], Expr], then: Callable[[Expr], Expr] = lambda x: x) -> Callable[..., Expr]:
    return lambda x, **how: then(op.sum(function(x), **how))


def _log_sum_exp(x: Expr, axis: tuple[int, ...], keepdims: bool) -> Expr:
    greatest = op.max(x, axis=axis, keepdims=True)
    made = op.add(op.log(op.sum(op.exp(op.subtract(x, greatest)), axis=axis, keepdims=True)), greatest)
    return made if keepdims else op.squeeze(made, axis=axis)


_REDUCTIONS: dict[str, Callable[..., Expr]] = {
    "reduce_sum": op.sum, "reduce_mean": op.mean, "reduce_max": op.max, "reduce_min": op.min, "reduce_prod": op.prod,
    "reduce_l1_norm": _sum_of(op.abs),
    "reduce_l2_norm": _sum_of(_UNARY["square"], op.sqrt),
    "reduce_sum_square": _sum_of(_UNARY["square"]),
    "reduce_log_sum": _sum_of(lambda x: x, op.log),
    "reduce_log_sum_exp": _log_sum_exp,
}  # fmt: skip


@converts(*_REDUCTIONS)
def convert_reduction(node: MilNode) -> Expr:
    """Over axes, all of them where none are named."""
    return _REDUCTIONS[node.operator](node.arg(), axis=node.axes(), keepdims=bool(node.number("keep_dims", False)))


@converts("reduce_argmax", "reduce_argmin")
def convert_places(node: MilNode) -> Expr:
    """The place of the greatest or least along an axis, int32."""
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
        moved = op.subtract(moved, _on_axis(node, cast(node.arg("zero_point"), dtype_of(scale)), x))
    return op.multiply(moved, _on_axis(node, scale, x))


@converts("quantize")
def convert_quantize(node: MilNode) -> Expr:
    """round(x / scale) + zero point, within the element type."""
    x, target = node.arg("input"), node.text("output_dtype")
    low, high = {"int8": (-128, 127), "uint8": (0, 255)}.get(target, (0, 0))
    if not high:
        node.unsupported(f"the element type {target!r} is not supported")
    made: Expr = op.round(op.divide(x, _on_axis(node, node.arg("scale"), x)))
    if node.has_arg("zero_point"):
        made = op.add(made, _on_axis(node, cast(node.arg("zero_point"), dtype_of(made)), x))
    return cast(op.clip(made, low, high), target)


def _on_axis(node: MilNode, values: Expr, x: Expr) -> Expr:
    if not shape_of(values):
        return values
    axis = node.axis(node.number("axis", 0), rank_of(x))
    return reshape(values, [shape_of(x)[axis] if place == axis else 1 for place in range(rank_of(x))])


@converts("constexpr_cast")
def convert_constexpr_cast(node: MilNode) -> Expr:
    """Weights kept in another element type."""
    return cast(node.arg("source_val"), _CASTS.get(node.text("output_dtype"), "float32"))


@converts("constexpr_lut_to_dense")
def convert_lut(node: MilNode) -> Expr:
    """Weights kept as places in a table; of old programs, packed with as few bits as the table needs."""
    indices, table = node.array("indices"), node.array("lut")
    if not node.has_arg("shape"):
        node.unsupported("tables of iOS 18 are not supported")
    shape = node.numbers("shape")
    count, bits = int(np.prod(shape, dtype=object)), int(table.size - 1).bit_length()
    if indices.size * 8 < count * bits:
        node.bad(f"{indices.size} bytes of indices for {count} places of {bits} bits")
    if bits == 8:
        places: Any = indices[:count]
    else:
        unpacked = np.unpackbits(indices.astype(np.uint8), bitorder="little")[: count * bits].reshape(count, bits)
        places = unpacked.astype(np.int64) @ (1 << np.arange(bits))
    return constant(table[places.astype(np.int64)].reshape(shape), str(table.dtype))


@converts("constexpr_sparse_to_dense")
def convert_sparse(node: MilNode) -> Expr:
    """Weights of which only those that are not zero are kept, with a bit for each place."""
    values, mask = node.array("nonzero_data"), node.array("mask")
    if not node.has_arg("shape"):
        node.unsupported("masks of iOS 18 are not supported")
    shape = node.numbers("shape")
    count = int(np.prod(shape, dtype=object))
    bits = np.unpackbits(mask.astype(np.uint8), bitorder="little")[:count]
    if bits.size != count or int(bits.sum()) != values.size:
        node.bad(f"{values.size} values for {int(bits.sum())} places of {count}")
    dense = np.zeros(count, values.dtype)
    dense[bits != 0] = values.reshape(-1)
    return constant(dense.reshape(shape), str(values.dtype))


@converts("fill")
def convert_fill(node: MilNode) -> Expr:
    """A tensor of one number."""
    return broadcast_to(node.arg("value"), node.numbers("shape"))


@converts("scaled_dot_product_attention")
def convert_attention(node: MilNode) -> Expr:
    """softmax(q k / sqrt(d) + mask) v."""
    query, key, value = (node.arg(name) for name in ("query", "key", "value"))
    scores = _scaled(product(query, key, transpose_b=True), float(shape_of(query)[-1]) ** -0.5)
    if node.has_arg("attn_mask"):
        mask = node.arg("attn_mask")
        if dtype_of(mask) == "bool":
            scores = op.where(mask, scores, like(-np.inf, scores))
        else:
            scores = op.add(scores, mask)
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
