"""Element-wise arithmetic, comparisons, logic and bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, shape_of
from tilewright.frontend.tflite.activation import activated, fused_activation, unary
from tilewright.frontend.tflite.fixed_point import (
    activation_range,
    by_table,
    centred,
    centred_table,
    divide_by_each_power,
    divide_by_power,
    finish,
    looked_up,
    multiply,
    multiply_array,
    multiply_each,
    quantize_multiplier,
    real_table,
    rescaling,
)
from tilewright.frontend.tflite.node import Node, converts
from tilewright.frontend.tflite.normalization import high_product, high_word, inverse_sqrt
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType


# ------------------------------------------------------------------------------------------- sums and products
@converts("ADD", "SUB")
def convert_add(node: Node) -> Expr:
    function = op.add if node.name == "ADD" else op.subtract
    if not node.is_quantized():
        return activated(node, function(node[0], node[1]))
    scales = [node.input_quantization(i).scale[0] for i in (0, 1)] + [node.output_quantization().scale[0]]
    if node.dtype() == "int16" and node.option("pot_scale_int16", True) and all(map(_is_power_of_two, scales)):
        return _sum_of_powers(node, function, [round(math.log2(scale)) for scale in scales])
    left = 15 if node.dtype() == "int16" else 20
    operands, twice = _at_one_scale(node, left)
    factor = quantize_multiplier(twice / (float(1 << left) * float(scales[2])))
    return finish(node, multiply(function(*operands), *factor), fused_activation(node))


def _at_one_scale(node: Node, left: int) -> tuple[list[Expr], float]:
    """Both operands in steps of twice the larger scale, shifted to the left, and that scale."""
    scales = [node.input_quantization(index).scale[0] for index in (0, 1)]
    twice = 2.0 * float(max(scales))
    factors = [quantize_multiplier(float(scale) / twice) for scale in scales]
    return [multiply(op.left_shift(centred(node, i), left), *factor) for i, factor in enumerate(factors)], twice


def _is_power_of_two(scale: float) -> bool:
    return math.frexp(float(scale))[0] == 0.5


def _sum_of_powers(node: Node, function: Callable[[Expr, Expr], Expr], logs: list[int]) -> Expr:
    """int16 tensors whose scales are powers of two: one operand is shifted to the output's scale."""
    shifts = [log - logs[2] for log in logs[:2]]
    if max(shifts) > 0 or 0 not in shifts:
        node.bad(f"the scales 2^{logs[0]} and 2^{logs[1]} do not go with the output's 2^{logs[2]}")
    operands = [divide_by_power(cast(node[i], "int32"), -shift) for i, shift in enumerate(shifts)]
    total = op.clip(function(*operands), -32768, 32767)
    low, high = activation_range(node, fused_activation(node))
    return cast(op.clip(total, low, high), "int16")


@converts("MUL")
def convert_mul(node: Node) -> Expr:
    if not node.is_quantized():
        return activated(node, node[0] * node[1])
    left, right, wanted = node.input_quantization(), node.input_quantization(1), node.output_quantization()
    factor = quantize_multiplier(float(left.scale[0] * right.scale[0] / wanted.scale[0]))
    return finish(node, multiply(centred(node, 0) * centred(node, 1), *factor), fused_activation(node))


@converts("SQUARED_DIFFERENCE")
def convert_squared_difference(node: Node) -> Expr:
    if not node.is_quantized():
        difference = node[0] - node[1]
        return difference * difference
    left = 7
    operands, twice = _at_one_scale(node, left)
    difference = op.subtract(*operands)
    factor = quantize_multiplier(twice * twice / (float(1 << (left * 2)) * node.output_quantization().step))
    return finish(node, multiply(difference * difference, *factor), "NONE")


# -------------------------------------------------------------------------------------------------- one operand
converts.functions({
    "EXP": unary(op.exp, lambda x: np.exp(x.astype("float64"))),
    **{name: unary(function) for name, function in {
        "SIN": op.sin, "COS": op.cos, "CEIL": op.ceil, "FLOOR": op.floor, "ROUND": op.round, "SIGN": op.sign,
        "ZEROS_LIKE": op.zeros_like,
    }.items()},
    "NEG": lambda node: -node[0],  # of the codes, where there are any: the kernel reads no zero points
    "LOGICAL_NOT": lambda node: op.logical_not(node[0]),
    "ADD_N": lambda node: reduce(op.add, node.given()),
})  # fmt: skip
converts.binary({
    "MAXIMUM": op.maximum, "MINIMUM": op.minimum, "POW": op.power, "FLOOR_DIV": op.floor_divide,
    "FLOOR_MOD": op.floor_mod, "LOGICAL_AND": op.logical_and, "LOGICAL_OR": op.logical_or,
    "BITWISE_XOR": op.bitwise_xor, "RIGHT_SHIFT": op.right_shift, "ATAN2": functions.atan2,
})  # fmt: skip


@converts("LOG")
def convert_log(node: Node) -> Expr:
    if not node.is_quantized():
        return op.log(node[0])
    given, wanted = node.input_quantization(), node.output_quantization()
    if node.dtype() == "int16":
        least = np.float64(wanted.scale[0]) * -32768
        return real_table(node, lambda x: np.where(x <= 0, least, np.log(np.where(x <= 0, 1, x).astype("float64"))))

    def table(codes: np.ndarray) -> np.ndarray:
        real = given.scale[0] * (codes - given.zero).astype(np.float32)
        with np.errstate(all="ignore"):
            scaled = np.log(real) * (np.float32(1) / wanted.scale[0])
        rounded = np.trunc(np.where(np.isfinite(scaled), scaled + np.copysign(np.float32(0.5), scaled), 0))
        return np.where(real <= 0, -128, rounded.astype(np.int64) + wanted.zero)

    return by_table(node, table)


@converts("ABS")
def convert_abs(node: Node) -> Expr:
    if not node.is_quantized():
        return op.abs(node[0])
    given, wanted = node.input_quantization(), node.output_quantization()
    factor = rescaling(given, wanted, np.float32)
    if given.scale[0] == wanted.scale[0]:
        return centred_table(node, np.abs)
    return centred_table(node, lambda x: multiply_array(np.abs(x), *factor))


@converts("SQUARE")
def convert_square(node: Node) -> Expr:
    if node.is_quantized():
        node.unsupported("quantized tensors")
    return node[0] * node[0]


@converts("SQRT")
def convert_sqrt(node: Node) -> Expr:
    if not node.is_quantized():
        return op.sqrt(node[0])
    given, wanted = node.input_quantization(), node.output_quantization()

    def entry(x: np.ndarray) -> np.ndarray:
        real = given.scale[0] * x.astype(np.float32)
        steps = np.sqrt(np.maximum(real, 0)) / wanted.scale[0]  # the kernel refuses negative numbers
        return np.minimum(steps, 1 << 20).astype(np.int64)

    return centred_table(node, entry)


@converts("RSQRT")
def convert_rsqrt(node: Node) -> Expr:
    if not node.is_quantized():
        return op.rsqrt(node[0])
    if node.dtype() == "int16":
        return real_table(node, lambda x: np.float32(1) / np.sqrt(x))
    given, wanted = node.input_quantization(), node.output_quantization()
    multiplier, shift = quantize_multiplier(1.0 / (math.sqrt(given.step) * wanted.step))
    low, high = (int(limit) for limit in DType(node.dtype()).limits())
    x = constant(np.arange(low, high + 1) - given.zero, "int32")
    inverse, positions = inverse_sqrt(x)
    root = multiply_each(constant(1, "int64"), inverse, positions + 20)
    table = finish(node, op.where(x > 0, multiply(cast(root, "int32"), multiplier, shift - 20), 1 << 20), "NONE")
    return op.take(table, cast(node[0], "int32") - low, axis=0, mode="fast")


# ------------------------------------------------------------------------------------------------- two operands
_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "EQUAL": op.equal, "NOT_EQUAL": op.not_equal, "LESS": op.less, "LESS_EQUAL": op.less_equal,
    "GREATER": op.greater, "GREATER_EQUAL": op.greater_equal,
}  # fmt: skip


@converts(*_COMPARISONS)
def convert_comparison(node: Node) -> Expr:
    compare = _COMPARISONS[node.name]
    if not (node.is_quantized() and node.is_quantized(1)):
        return compare(node[0], node[1])
    operands = []
    for index in (0, 1):
        shifted = op.left_shift(centred(node, index), 8)
        operands.append(multiply(shifted, *quantize_multiplier(node.input_quantization(index).step)))
    return compare(*operands)


@converts("CAST")
def convert_cast(node: Node) -> Expr:
    if not node.output().dtype:
        node.unsupported(f"a cast to {node.output().element_type}")
    return cast(node[0], node.output().dtype)


@converts("BITCAST")
def convert_bitcast(node: Node) -> Expr:
    wanted = node.output().dtype
    if not wanted or DType(wanted).bits != DType(node.dtype()).bits:
        node.unsupported(f"{node.dtype()} as {node.output().element_type}, which has another width")
    return op.reinterpret(node[0], dtype=wanted)


@converts("SELECT", "SELECT_V2", "STABLEHLO_SELECT")
def convert_select(node: Node) -> Expr:
    condition = node[0]
    if node.name == "SELECT" and len(shape_of(condition)) == 1 and node.rank(1) > 1:
        condition = op.reshape(condition, newshape=(-1, *(1,) * (node.rank(1) - 1)))
    return op.where(condition, node[1], node[2])


@converts("BUCKETIZE")
def convert_bucketize(node: Node) -> Expr:
    bounds = constant(node.option("boundaries"), "float32")
    return op.searchsorted(bounds, cast(node[0], "float32"), right=True, dtype="int32")


@converts("CUMSUM")
def convert_cumsum(node: Node) -> Expr:
    exclusive, reverse = (bool(node.option(name, False)) for name in ("exclusive", "reverse"))
    return op.cumsum(node[0], axis=node.axis(node.ints(1, "axis")[0]), exclusive=exclusive, reverse=reverse)


# ---------------- DIV; of integers by the reciprocal of the divisor in fixed point, as the reference kernel computes it
_MOST = (1 << 31) - 1
#: Numbers of 32 bits are 0 behind shifts by more.
_MOST_SHIFT = 62


@converts("DIV")
def convert_div(node: Node) -> Expr:
    if not node.is_quantized():
        return activated(node, node[0] / node[1])
    if node.dtype() == "int16":
        if node.input_quantization().zero or node.input_quantization(1).zero:
            node.unsupported("int16 with zero points")
        return _quotient(node, cast(node[0], "int32"), cast(node[1], "int32"))
    least = int(DType(node.dtype()).limits()[0])
    a, b = (np.arange(least, least + 256) - node.input_quantization(index).zero for index in (0, 1))
    table = _quotient(node, constant(a[:, None], "int32"), constant(b[None, :], "int32"))
    rows, columns = (cast(node[index], "int32") - least for index in (0, 1))
    return op.take(op.reshape(table, newshape=(-1,)), op.left_shift(rows, 8) + columns, axis=0, mode="fast")


def _quotient(node: Node, a: Expr, b: Expr) -> Expr:
    """a / b, int32 numbers of 16 bits, as the output; by zero the largest number of the sign of a."""
    left, right, wanted = node.input_quantization(), node.input_quantization(1), node.output_quantization()
    multiplier, shift = quantize_multiplier(float(left.scale[0] / (right.scale[0] * wanted.scale[0])))
    low, high = activation_range(node, fused_activation(node))
    wide, headroom = _looked_up(_dividends(np.arange(-(1 << 15), (1 << 15) + 1)), op.where(b < 0, -a, a))
    inverse, over = _looked_up(_divisors(np.abs(np.arange(-(1 << 15), 1 << 15))), b)
    value = high_product(high_product(wide, inverse), constant(multiplier, "int64"))
    value = divide_by_each_power(value, op.clip(over + headroom - shift, 0, _MOST_SHIFT))
    value = op.clip(op.clip(value, -_MOST, _MOST) + wanted.zero, low, high)
    end = op.where(a < 0, constant(low, "int64"), constant(high, "int64"))
    return cast(op.where(op.equal(b, 0), end, value), node.output().dtype)


def _looked_up(tables: tuple[np.ndarray, np.ndarray], value: Expr) -> list[Expr]:
    """int64 entries of both tables for int32 numbers of which -32768 is the first."""
    position = value + (1 << 15)
    return [cast(looked_up(table, position), "int64") for table in tables]


def _dividends(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers shifted as far to the left as 32 bits allow, and how far that is."""
    headroom = 31 - _bits(np.where(a < 0, -a - 1, a))
    return a << headroom, headroom


def _divisors(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of numbers from 1 on, with b = x * 2^bits and x of 1 to 2, 1 / x in Q0.31 and the bits."""
    b = np.maximum(b, 1)
    bits = _bits(b) - 1
    half = ((b << (31 - bits)) >> 1).astype(np.int64)
    root = 1515870810 + high_word(half, -1010580540)
    for _ in range(3):
        root = root + (high_word(root, (1 << 29) - high_word(half, root)) << 2)
    return np.clip(root << 1, -(1 << 31), _MOST), bits


def _bits(values: np.ndarray) -> np.ndarray:
    """The number of bits that whole numbers below 2^53 take."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)
