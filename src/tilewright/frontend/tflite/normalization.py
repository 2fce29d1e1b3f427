"""Softmax and its kin, with the fixed-point arithmetic of the quantized ones."""

from __future__ import annotations

import math

import numpy as np

from tilewright.frontend.idioms import cast, constant, like, shape_of, slice_axis
from tilewright.frontend.tflite.fixed_point import (
    divide_by_power_array,
    multiply,
    multiply_array,
    quantize_multiplier,
    round_array,
    scalar_scale,
)
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

_MOST = (1 << 31) - 1


@converts("SOFTMAX")
def convert_softmax(node: Node) -> Expr:
    beta = float(node.option("beta"))
    if not node.is_quantized():
        return op.nn.softmax(node[0] if beta == 1 else op.multiply(node[0], like(beta, node[0])), axis=-1)
    return _softmax_16(node, beta) if node.dtype() == "int16" else _softmax_8(node, beta)


def exp_of_negative(raw: np.ndarray) -> np.ndarray:
    """exp of Q5.26 numbers that are not positive, in Q0.31, by gemmlowp's series and products."""
    quarter, mask = 1 << 24, (1 << 24) - 1
    inside = (raw & mask) - quarter
    remainder = inside - raw
    x = np.clip(inside << 5, -(1 << 31), _MOST) + (1 << 28)
    x2 = _high(x, x)
    x4 = _high(x2, x2)
    tail = divide_by_power_array(x4, 2)
    tail = divide_by_power_array(_high(tail + _high(x2, x), 715827883) + x2, 1)
    result = 1895147668 + _high(1895147668, x + tail)
    steps = (
        (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242),
    )  # fmt: skip
    for exponent, multiplier in steps:
        result = np.where(remainder & (1 << (26 + exponent)), _high(result, multiplier), result)
    return np.where(raw == 0, _MOST, result)


def _high(a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    return (np.asarray(a, np.int64) * b + (1 << 30)) >> 31


def scaled_differences(node: Node, beta: float) -> tuple[tuple[int, int], int]:
    """The factor from codes to beta * x in Q5.26, and the largest difference of codes that fits there."""
    factor = quantize_multiplier(min(beta * scalar_scale(node.input_quantization()) * (1 << 26), float(_MOST)))
    return factor, math.floor(((1 << 5) - 1) * 2.0**26 / 2.0 ** factor[1])


def _softmax_8(node: Node, beta: float) -> Expr:
    """Tables of exp for each difference to the row's maximum, their sum, and its reciprocal by Newton's method."""
    factor, most = scaled_differences(node, beta)
    differences = np.arange(-255, 1, dtype=np.int64)
    raw = multiply_array(differences, *factor)
    kept = differences >= -most
    exps = np.where(kept, exp_of_negative(np.where(kept, raw, 0)), 0)
    x = cast(node[0], "int32")
    place = op.add(op.subtract(x, op.max(x, axis=-1, keepdims=True)), constant(255, "int32"))
    terms = op.take(constant(divide_by_power_array(exps, 12), "int32"), place, axis=0, mode="fast")
    total = op.sum(terms, axis=-1, keepdims=True)
    reciprocal, over = _reciprocal(total, 12)
    low, high = (int(limit) for limit in DType(node.output().dtype).limits())
    bits = DType(node.output().dtype).bits
    wide = op.take(constant(exps, "int64"), place, axis=0, mode="fast")
    product = high_product(reciprocal, wide)
    exponent = op.add(over, constant(31 - bits, "int64"))
    half = op.right_shift(op.left_shift(constant(1, "int64"), exponent), constant(1, "int64"))
    value = op.add(op.right_shift(op.add(product, half), exponent), constant(low, "int64"))
    skipped = op.take(constant(kept, "bool"), place, axis=0, mode="fast")
    value = op.where(skipped, value, constant(low, "int64"))
    return cast(op.clip(value, low, high), node.output().dtype)


def high_product(a: Expr, b: Expr) -> Expr:
    """The high half of the doubled product of Q31 numbers, int64, rounded to the nearest."""
    return op.right_shift(op.add(op.multiply(a, b), constant(1 << 30, "int64")), constant(31, "int64"))


def _reciprocal(total: Expr, integer_bits: int) -> tuple[Expr, Expr]:
    """(1 / x in Q0.31, bits of x over one) of positive sums with `integer_bits` bits before the point, both int64."""
    zeros = leading_zeros(total)
    wide = cast(total, "int64")
    shifted = op.subtract(op.left_shift(wide, zeros), constant(1 << 31, "int64"))
    return one_over_one_plus(shifted), op.subtract(constant(integer_bits, "int64"), zeros)


def one_over_one_plus(x: Expr) -> Expr:
    """1 / (1 + x) in Q0.31 of int64 numbers in Q0.31 of 0 to 1."""
    half = op.right_shift(op.add(x, constant(_MOST + 1, "int64")), constant(1, "int64"))
    root = op.add(constant(1515870810, "int64"), high_product(half, constant(-1010580540, "int64")))
    for _ in range(3):
        error = op.subtract(constant(1 << 29, "int64"), high_product(half, root))
        root = op.add(root, op.left_shift(high_product(root, error), constant(2, "int64")))
    return op.clip(op.left_shift(root, constant(1, "int64")), -(1 << 31), _MOST)


def leading_zeros(value: Expr) -> Expr:
    """The zeros before the first one of positive int32 numbers, int64."""
    places = np.left_shift(1, np.arange(31, dtype=np.int64)).astype(np.int32)
    reached = op.greater_equal(op.expand_dims(value, axis=len(shape_of(value))), constant(places, "int32"))
    bits = op.sum(cast(reached, "int64"), axis=-1)
    return op.subtract(constant(32, "int64"), bits)


# ----------------------------------------------------------------------------------------------------- 16 bits
def table_of_16_bits(function: object, low: float, high: float, out_low: float, out_high: float) -> np.ndarray:
    """The 513 entries by which the kernels tell a function between `low` and `high`, each moved by half its bias."""
    assert callable(function)
    step, half_step = (high - low) / 512, (high - low) / 1024
    factor = 65536.0 / (out_high - out_low)
    at = low + np.arange(512) * step
    value = round_array(function(at) * factor)
    between = function(at + half_step) * factor
    following = function(at + step) * factor
    bias = round_array((round_array((following + value) / 2) - round_array(between)) / 2)
    last = round_array(function(np.float64(high)) * factor)
    entries = np.clip(np.append(value - bias, last), -32768, 32767)
    return entries.astype(np.int64)


def look_up(table: np.ndarray, value: Expr) -> Expr:
    """int32 numbers of 16 bits through a table of 513 entries, interpolated."""
    place = op.add(op.right_shift(value, constant(7, "int32")), constant(256, "int32"))
    rest = op.bitwise_and(value, constant(127, "int32"))
    base = op.take(constant(table[:-1], "int32"), place, axis=0, mode="fast")
    slope = op.take(constant(np.diff(table), "int32"), place, axis=0, mode="fast")
    delta = op.right_shift(op.add(op.multiply(slope, rest), constant(64, "int32")), constant(7, "int32"))
    return op.add(base, delta)


def _softmax_16(node: Node, beta: float) -> Expr:
    """exp(x - max) and 1 / (1 + x) by interpolated tables, sums in Q16.15."""
    scale = scalar_scale(node.input_quantization())
    factor = quantize_multiplier(scale * beta / (10.0 / 65535.0))
    x = cast(node[0], "int32")
    difference = multiply(op.subtract(x, op.max(x, axis=-1, keepdims=True)), *factor)
    centred = op.clip(op.add(difference, constant(32767, "int32")), -32768, 32767)
    exps = look_up(table_of_16_bits(np.exp, -10.0, 0.0, -1.0, 1.0), centred)
    total = op.sum(exps, axis=-1, keepdims=True)
    zeros = leading_zeros(total)
    wide = op.left_shift(cast(total, "int64"), op.subtract(zeros, constant(1, "int64")))
    shifted = op.right_shift(op.add(wide, constant(1 << 13, "int64")), constant(14, "int64"))
    place = op.clip(op.subtract(shifted, constant((1 << 15) + (1 << 16), "int64")), -32768, 32767)
    inverse = look_up(table_of_16_bits(lambda v: 1 / (1 + v), 0.0, 1.0, -1.0, 1.0), cast(place, "int32"))
    right = op.subtract(constant(31, "int64"), zeros)
    half = op.left_shift(constant(1, "int64"), op.subtract(right, constant(1, "int64")))
    product = op.multiply(cast(exps, "int64"), cast(inverse, "int64"))
    return cast(op.clip(op.right_shift(op.add(product, half), right), 0, 32767), "int16")


# --------------------------------------------------------------------------------------------------- the other
@converts("LOCAL_RESPONSE_NORMALIZATION")
def convert_lrn(node: Node) -> Expr:
    """x / (bias + alpha * s)^beta; s sums the squares of `radius` elements before and `radius` from it on."""
    x, radius, depth = node[0], int(node.option("radius")), node.shape()[-1]
    last = node.rank() - 1
    around = op.nn.pad(op.multiply(x, x), [(0, 0)] * last + [(radius, radius)])
    total = slice_axis(around, last, 0, depth)
    for step in range(1, 2 * radius):
        total = op.add(total, slice_axis(around, last, step, step + depth))
    scale = op.add(op.multiply(total, like(node.option("alpha"), x)), like(node.option("bias"), x))
    return op.multiply(x, op.power(scale, like(-node.option("beta"), x)))
