"""Element-wise arithmetic, comparisons, logic and bits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, shape_of
from tilewright.frontend.tflite.activation import activated, fused_activation, unary
from tilewright.frontend.tflite.fixed_point import (
    activation_range,
    by_table,
    centred,
    divide_by_each_power,
    divide_by_power,
    divide_by_power_array,
    finish,
    multiply,
    multiply_array,
    quantize_multiplier,
    real_table,
    scalar_scale,
    zero_point,
)
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.normalization import high_product
from tilewright.frontend.tflite.registry import converts
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
    twice = 2.0 * float(max(scales[:2]))
    operands = []
    for index in (0, 1):
        shifted = op.left_shift(centred(node, index), constant(left, "int32"))
        operands.append(multiply(shifted, *quantize_multiplier(float(scales[index]) / twice)))
    total = function(*operands)
    factor = quantize_multiplier(twice / (float(1 << left) * float(scales[2])))
    return finish(node, multiply(total, *factor), fused_activation(node))


def _is_power_of_two(scale: float) -> bool:
    return math.frexp(float(scale))[0] == 0.5


def _sum_of_powers(node: Node, function: Callable[[Expr, Expr], Expr], logs: list[int]) -> Expr:
    """int16 tensors whose scales are powers of two: one operand is shifted to the output's scale."""
    shifts = [log - logs[2] for log in logs[:2]]
    if max(shifts) > 0 or 0 not in shifts:
        raise ModelError(
            f"{node.label}: the scales 2^{logs[0]} and 2^{logs[1]} do not go with the output's 2^{logs[2]}"
        )
    operands = [divide_by_power(cast(node[i], "int32"), -shift) for i, shift in enumerate(shifts)]
    total = op.clip(function(*operands), -32768, 32767)
    low, high = activation_range(node, fused_activation(node))
    return cast(op.clip(total, low, high), "int16")


@converts("MUL")
def convert_mul(node: Node) -> Expr:
    if not node.is_quantized():
        return activated(node, node[0] * node[1])
    left, right, wanted = node.input_quantization(), node.input_quantization(1), node.output_quantization()
    real = float(left.scale[0] * right.scale[0] / wanted.scale[0])
    product = centred(node, 0) * centred(node, 1)
    return finish(node, multiply(product, *quantize_multiplier(real)), fused_activation(node))


@converts("SQUARED_DIFFERENCE")
def convert_squared_difference(node: Node) -> Expr:
    if not node.is_quantized():
        difference = node[0] - node[1]
        return difference * difference
    scales = [node.input_quantization(i).scale[0] for i in (0, 1)] + [node.output_quantization().scale[0]]
    twice, left = 2.0 * float(max(scales[:2])), 7
    operands = []
    for index in (0, 1):
        shifted = op.left_shift(centred(node, index), constant(left, "int32"))
        operands.append(multiply(shifted, *quantize_multiplier(float(scales[index]) / twice)))
    difference = op.subtract(*operands)
    factor = quantize_multiplier(twice * twice / (float(1 << (left * 2)) * float(scales[2])))
    return finish(node, multiply(difference * difference, *factor), "NONE")


@converts("ADD_N")
def convert_add_n(node: Node) -> Expr:
    first, *rest = node.given()
    total = first
    for value in rest:
        total = total + value
    return total


# -------------------------------------------------------------------------------------------------- one operand
def _elementwise(name: str, function: Callable[[Expr], Expr], table: Callable[[np.ndarray], np.ndarray] | None) -> None:
    converts(name)(unary(function, table))


_elementwise("EXP", op.exp, lambda x: np.exp(x.astype("float64")))
_elementwise("SIN", op.sin, None)
_elementwise("COS", op.cos, None)
_elementwise("CEIL", op.ceil, None)
_elementwise("FLOOR", op.floor, None)
_elementwise("ROUND", op.round, None)
_elementwise("SIGN", op.sign, None)
_elementwise("ZEROS_LIKE", op.zeros_like, None)


@converts("LOG")
def convert_log(node: Node) -> Expr:
    if not node.is_quantized():
        return op.log(node[0])
    given, wanted = node.input_quantization(), node.output_quantization()
    if node.dtype() == "int16":
        least = np.float64(wanted.scale[0]) * -32768
        return real_table(node, lambda x: np.where(x <= 0, least, np.log(np.where(x <= 0, 1, x).astype("float64"))))

    def table(codes: np.ndarray) -> np.ndarray:
        real = given.scale[0] * (codes - zero_point(given)).astype(np.float32)
        with np.errstate(all="ignore"):
            scaled = np.log(real) * (np.float32(1) / wanted.scale[0])
        rounded = np.trunc(np.where(np.isfinite(scaled), scaled + np.copysign(np.float32(0.5), scaled), 0))
        return np.where(real <= 0, -128, rounded.astype(np.int64) + zero_point(wanted))

    return by_table(node, table)


@converts("NEG")
def convert_neg(node: Node) -> Expr:
    return -node[0]  # of the codes, where there are any: the kernel reads no zero points


@converts("ABS")
def convert_abs(node: Node) -> Expr:
    if not node.is_quantized():
        return op.abs(node[0])
    given, wanted = node.input_quantization(), node.output_quantization()
    factor = quantize_multiplier(scalar_scale(given) / scalar_scale(wanted))
    same = given.scale[0] == wanted.scale[0]

    def entry(codes: np.ndarray) -> np.ndarray:
        magnitude = np.abs(codes - zero_point(given))
        return (magnitude if same else multiply_array(magnitude, *factor)) + zero_point(wanted)

    return by_table(node, entry)


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

    def entry(codes: np.ndarray) -> np.ndarray:
        real = given.scale[0] * (codes - zero_point(given)).astype(np.float32)
        steps = np.sqrt(np.maximum(real, 0)) / wanted.scale[0]  # the kernel refuses negative numbers
        return np.minimum(steps, 1 << 20).astype(np.int64) + zero_point(wanted)

    return by_table(node, entry)


@converts("RSQRT")
def convert_rsqrt(node: Node) -> Expr:
    if not node.is_quantized():
        return op.rsqrt(node[0])
    if node.dtype() == "int16":
        return real_table(node, lambda x: np.float32(1) / np.sqrt(x))
    given, wanted = node.input_quantization(), node.output_quantization()
    factor = quantize_multiplier(1.0 / (math.sqrt(scalar_scale(given)) * scalar_scale(wanted)))

    def entry(codes: np.ndarray) -> np.ndarray:
        return np.array([_rsqrt(int(code) - zero_point(given), *factor) for code in codes]) + zero_point(wanted)

    return by_table(node, entry)


def _rsqrt(value: int, multiplier: int, shift: int) -> int:
    """1 / sqrt(value) times a factor, by Newton's method in fixed point; the largest number for 0."""
    if value <= 0:
        return 1 << 20
    inverse, positions = inverse_sqrt(value)
    data = int(multiply_array(np.array(1), inverse, positions + 20))
    return int(multiply_array(np.array(data), multiplier, shift - 20))


def inverse_sqrt(value: int) -> tuple[int, int]:
    """(m, shift) of 1 / sqrt(value) by three steps of Newton's method in Q3.28, as the kernels compute it."""
    if value <= 1:
        return (1 << 31) - 1, 0
    right = 11
    while value >= 1 << 29:
        value, right = value // 4, right + 1
    most_bits = 31 - (value.bit_length() - 1) - 1
    left = most_bits // 2 - 1
    right -= left
    value <<= 2 * left
    three = 3 << 27
    x = 1 << 28
    halved = ((value >> 1) + 1) >> 1
    for _ in range(5):
        cube = _rescaled(_doubling_high(_doubling_high(x, x), x), 6)
        x = _rescaled(_doubling_high(three, x) - _doubling_high(halved, cube), 3)
    x = _doubling_high(x, 1518500250)
    return (x << -right if right < 0 else x), (0 if right < 0 else -right)


def _doubling_high(a: int, b: int) -> int:
    return (a * b + (1 << 30)) >> 31


def _rescaled(value: int, positions: int) -> int:
    return max(min(value << positions, (1 << 31) - 1), -(1 << 31))


# ------------------------------------------------------------------------------------------------- two operands
@converts(
    "MAXIMUM", "MINIMUM", "POW", "FLOOR_DIV", "FLOOR_MOD", "LOGICAL_AND", "LOGICAL_OR", "BITWISE_XOR", "RIGHT_SHIFT"
)
def convert_binary(node: Node) -> Expr:
    return _BINARY[node.name](node[0], node[1])


_BINARY: dict[str, Callable[[Expr, Expr], Expr]] = {
    "MAXIMUM": op.maximum,
    "MINIMUM": op.minimum,
    "POW": op.power,
    "FLOOR_DIV": op.floor_divide,
    "FLOOR_MOD": op.floor_mod,
    "LOGICAL_AND": op.logical_and,
    "LOGICAL_OR": op.logical_or,
    "BITWISE_XOR": op.bitwise_xor,
    "RIGHT_SHIFT": op.right_shift,
}


@converts("LOGICAL_NOT")
def convert_logical_not(node: Node) -> Expr:
    return op.logical_not(node[0])


_COMPARISONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "EQUAL": op.equal,
    "NOT_EQUAL": op.not_equal,
    "LESS": op.less,
    "LESS_EQUAL": op.less_equal,
    "GREATER": op.greater,
    "GREATER_EQUAL": op.greater_equal,
}


@converts(*_COMPARISONS)
def convert_comparison(node: Node) -> Expr:
    compare = _COMPARISONS[node.name]
    if not (node.is_quantized() and node.is_quantized(1)):
        return compare(node[0], node[1])
    operands = []
    for index in (0, 1):
        shifted = op.left_shift(centred(node, index), constant(8, "int32"))
        operands.append(multiply(shifted, *quantize_multiplier(scalar_scale(node.input_quantization(index)))))
    return compare(*operands)


@converts("ATAN2")
def convert_atan2(node: Node) -> Expr:
    return functions.atan2(node[0], node[1])


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
    axis = node.axis(node.ints(1, "axis")[0])
    return op.cumsum(
        node[0], axis=axis, exclusive=bool(node.option("exclusive", False)), reverse=bool(node.option("reverse", False))
    )


# ---------------- DIV; of integers by the reciprocal of the divisor in fixed point, as the reference kernel computes it
_MOST = (1 << 31) - 1
#: Numbers of 32 bits are 0 behind shifts by more.
_MOST_SHIFT = 62


@converts("DIV")
def convert_div(node: Node) -> Expr:
    if not node.is_quantized():
        return activated(node, node[0] / node[1])
    return _of_16_bits(node) if node.dtype() == "int16" else _of_8_bits(node)


def _factor(node: Node) -> tuple[int, int]:
    left, right, wanted = node.input_quantization(), node.input_quantization(1), node.output_quantization()
    return quantize_multiplier(float(left.scale[0] / (right.scale[0] * wanted.scale[0])))


def _of_8_bits(node: Node) -> Expr:
    dtype = node.output().dtype
    least = int(DType(dtype).limits()[0])
    a, b = (np.arange(least, least + 256) - zero_point(node.input_quantization(index)) for index in (0, 1))
    table = _quotients(a[:, None], b[None, :], _factor(node)) + zero_point(node.output_quantization())
    table = np.clip(table, *activation_range(node, fused_activation(node)))
    positions = [cast(node[index], "int32") - constant(least, "int32") for index in (0, 1)]
    position = op.left_shift(positions[0], constant(8, "int32")) + positions[1]
    return op.take(constant(table.reshape(-1), dtype), position, axis=0, mode="fast")


def _quotients(a: np.ndarray, b: np.ndarray, factor: tuple[int, int]) -> np.ndarray:
    """a / b times a factor; by zero the largest number of the sign of a."""
    (wide, headroom), (inverse, over) = _dividends(np.where(b < 0, -a, a)), _divisors(np.abs(b))
    value = _high(_high(wide, inverse), factor[0])
    right = np.clip(over + headroom - factor[1], 0, _MOST_SHIFT)
    rounded = value.copy()
    for exponent in np.unique(right):
        rounded = np.where(right == exponent, divide_by_power_array(value, int(exponent)), rounded)
    return np.where(b == 0, np.where(a < 0, -_MOST, _MOST), rounded)


def _of_16_bits(node: Node) -> Expr:
    wanted, (low, high) = node.output_quantization(), activation_range(node, fused_activation(node))
    if zero_point(node.input_quantization()) or zero_point(node.input_quantization(1)):
        node.unsupported("int16 with zero points")
    a, b = cast(node[0], "int32"), cast(node[1], "int32")
    zero = constant(0, "int32")
    negative = b < zero
    wide, headroom = _looked_up(_dividends(np.arange(-(1 << 15), (1 << 15) + 1)), op.where(negative, -a, a))
    inverse, over = _looked_up(_divisors(np.abs(np.arange(-(1 << 15), 1 << 15))), b)
    value = high_product(high_product(wide, inverse), constant(_factor(node)[0], "int64"))
    right = over + headroom - constant(_factor(node)[1], "int64")
    value = op.clip(divide_by_each_power(value, op.clip(right, 0, _MOST_SHIFT)), -_MOST, _MOST)
    value = op.clip(value + constant(zero_point(wanted), "int64"), low, high)
    end = op.where(a < zero, constant(low, "int64"), constant(high, "int64"))
    return cast(op.where(op.equal(b, zero), end, value), "int16")


def _looked_up(tables: tuple[np.ndarray, np.ndarray], value: Expr) -> list[Expr]:
    """int64 entries of both tables for int32 numbers of which -32768 is the first."""
    position = value + constant(1 << 15, "int32")
    return [cast(op.take(constant(table, "int32"), position, axis=0, mode="fast"), "int64") for table in tables]


def _dividends(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers shifted as far to the left as 32 bits allow, and how far that is."""
    headroom = 31 - _bits(np.where(a < 0, -a - 1, a))
    return a << headroom, headroom


def _divisors(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of numbers from 1 on, with b = x * 2^bits and x of 1 to 2, 1 / x in Q0.31 and the bits."""
    b = np.maximum(b, 1)
    bits = _bits(b) - 1
    half = ((b << (31 - bits)) >> 1).astype(np.int64)
    root = 1515870810 + _high(half, -1010580540)
    for _ in range(3):
        root = root + (_high(root, (1 << 29) - _high(half, root)) << 2)
    return np.clip(root << 1, -(1 << 31), _MOST), bits


def _bits(values: np.ndarray) -> np.ndarray:
    """The number of bits that whole numbers below 2^53 take."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _high(a: np.ndarray, b: Any) -> np.ndarray:
    return (a * b + (1 << 30)) >> 31
