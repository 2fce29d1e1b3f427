"""Softmax and its kin, with the fixed-point arithmetic of the quantized ones."""

from __future__ import annotations

import math

import numpy as np

from tilewright.frontend.idioms import cast, constant, shape_of, slice_axis
from tilewright.frontend.tflite import fixed_point
from tilewright.frontend.tflite.activation import activated
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

_MOST = (1 << 31) - 1


@converts("SOFTMAX")
def convert_softmax(node: Node) -> Expr:
    beta = float(node.option("beta"))
    if not node.is_quantized():
        return op.nn.softmax(node[0] if beta == 1 else node[0] * beta, axis=-1)
    return _softmax_16(node, beta) if node.dtype() == "int16" else _softmax_8(node, beta)


def exp_of_negative(raw: np.ndarray) -> np.ndarray:
    """exp of Q5.26 numbers that are not positive, in Q0.31, by gemmlowp's series and products."""
    quarter, mask = 1 << 24, (1 << 24) - 1
    inside = (raw & mask) - quarter
    remainder = inside - raw
    x = np.clip(inside << 5, -(1 << 31), _MOST) + (1 << 28)
    x2 = high_word(x, x)
    x4 = high_word(x2, x2)
    tail = fixed_point.divide_by_power_array(x4, 2)
    tail = fixed_point.divide_by_power_array(high_word(tail + high_word(x2, x), 715827883) + x2, 1)
    result = 1895147668 + high_word(1895147668, x + tail)
    for exponent, multiplier in fixed_point.POWERS:
        result = np.where(remainder & (1 << (26 + exponent)), high_word(result, multiplier), result)
    return np.where(raw == 0, _MOST, result)


def high_word(a: np.ndarray | int, b: np.ndarray | int) -> np.ndarray:
    """`high_product` of arrays."""
    return (np.asarray(a, np.int64) * b + (1 << 30)) >> 31


def scaled_differences(node: Node, beta: float) -> tuple[tuple[int, int], int]:
    """The factor from codes to beta * x in Q5.26, and the largest difference of codes that fits there."""
    factor = fixed_point.quantize_multiplier(min(beta * node.input_quantization().step * (1 << 26), float(_MOST)))
    return factor, math.floor(((1 << 5) - 1) * 2.0**26 / 2.0 ** factor[1])


def _softmax_8(node: Node, beta: float) -> Expr:
    """Tables of exp for each difference to the row's maximum, their sum, and its reciprocal by Newton's method."""
    factor, most = scaled_differences(node, beta)
    differences = np.arange(-255, 1, dtype=np.int64)
    raw = fixed_point.multiply_array(differences, *factor)
    kept = differences >= -most
    exps = np.where(kept, exp_of_negative(np.where(kept, raw, 0)), 0)
    x = cast(node[0], "int32")
    position = x - op.max(x, axis=-1, keepdims=True) + 255
    terms = fixed_point.looked_up(fixed_point.divide_by_power_array(exps, 12), position)
    total = op.sum(terms, axis=-1, keepdims=True)
    reciprocal, over = _reciprocal(total, 12)
    low, high = (int(limit) for limit in DType(node.output().dtype).limits())
    bits = DType(node.output().dtype).bits
    wide = fixed_point.looked_up(exps, position, "int64")
    product = high_product(reciprocal, wide)
    exponent = over + (31 - bits)
    half = op.right_shift(op.left_shift(1, exponent), 1)
    value = op.right_shift(product + half, exponent) + low
    skipped = fixed_point.looked_up(kept, position, "bool")
    value = op.where(skipped, value, low)
    return cast(op.clip(value, low, high), node.output().dtype)


def high_product(a: Expr, b: Expr | int) -> Expr:
    """The high half of the doubled product of Q31 numbers, int64, rounded to the nearest."""
    return op.right_shift(a * b + (1 << 30), 31)


def _reciprocal(total: Expr, integer_bits: int) -> tuple[Expr, Expr]:
    """(1 / x in Q0.31, bits of x over one) of positive sums with `integer_bits` bits before the point, both int64."""
    zeros = leading_zeros(total)
    wide = cast(total, "int64")
    shifted = op.left_shift(wide, zeros) - (1 << 31)
    return one_over_one_plus(shifted), integer_bits - zeros


def one_over_one_plus(x: Expr) -> Expr:
    """1 / (1 + x) in Q0.31 of int64 numbers in Q0.31 of 0 to 1."""
    half = op.right_shift(x + (_MOST + 1), 1)
    root = 1515870810 + high_product(half, -1010580540)
    for _ in range(3):
        error = (1 << 29) - high_product(half, root)
        root = root + op.left_shift(high_product(root, error), 2)
    return op.clip(op.left_shift(root, 1), -(1 << 31), _MOST)


def leading_zeros(value: Expr) -> Expr:
    """The zeros before the first one of positive int32 numbers, int64."""
    positions = np.left_shift(1, np.arange(31, dtype=np.int64)).astype(np.int32)
    reached = op.expand_dims(value, axis=len(shape_of(value))) >= positions
    bits = op.sum(cast(reached, "int64"), axis=-1)
    return 32 - bits


# ----------------------------------------------------------------------------------------------------- 16 bits
def table_of_16_bits(function: object, low: float, high: float, out_low: float, out_high: float) -> np.ndarray:
    """The 513 entries by which the kernels tell a function between `low` and `high`, each moved by half its bias."""
    assert callable(function)
    step, half_step = (high - low) / 512, (high - low) / 1024
    factor = 65536.0 / (out_high - out_low)
    at = low + np.arange(512) * step
    value = fixed_point.round_array(function(at) * factor)
    between = function(at + half_step) * factor
    following = function(at + step) * factor
    bias = fixed_point.round_array(
        (fixed_point.round_array((following + value) / 2) - fixed_point.round_array(between)) / 2
    )
    last = fixed_point.round_array(function(np.float64(high)) * factor)
    entries = np.clip(np.append(value - bias, last), -32768, 32767)
    return entries.astype(np.int64)


def look_up(table: np.ndarray, value: Expr) -> Expr:
    """int32 numbers of 16 bits through a table of 513 entries, interpolated."""
    position = op.right_shift(value, 7) + 256
    rest = op.bitwise_and(value, 127)
    base = fixed_point.looked_up(table[:-1], position)
    slope = fixed_point.looked_up(np.diff(table), position)
    delta = op.right_shift(slope * rest + 64, 7)
    return base + delta


def _softmax_16(node: Node, beta: float) -> Expr:
    """exp(x - max) and 1 / (1 + x) by interpolated tables, sums in Q16.15."""
    scale = node.input_quantization().step
    factor = fixed_point.quantize_multiplier(float(np.float32(scale) * np.float32(beta)) / (10.0 / 65535.0))
    x = cast(node[0], "int32")
    difference = fixed_point.multiply(x - op.max(x, axis=-1, keepdims=True), *factor)
    centred = op.clip(difference + 32767, -32768, 32767)
    exps = look_up(table_of_16_bits(np.exp, -10.0, 0.0, -1.0, 1.0), centred)
    total = op.sum(exps, axis=-1, keepdims=True)
    zeros = leading_zeros(total)
    wide = op.left_shift(cast(total, "int64"), zeros - 1)
    shifted = op.right_shift(wide + (1 << 13), 14)
    position = op.clip(shifted - ((1 << 15) + (1 << 16)), -32768, 32767)
    inverse = look_up(table_of_16_bits(lambda v: 1 / (1 + v), 0.0, 1.0, -1.0, 1.0), cast(position, "int32"))
    right = 31 - zeros
    half = op.left_shift(1, right - 1)
    product = cast(exps, "int64") * cast(inverse, "int64")
    return cast(op.clip(op.right_shift(product + half, right), 0, 32767), "int16")


# --------------------------------------------------------------------------------------------------- the other
@converts("LOCAL_RESPONSE_NORMALIZATION")
def convert_lrn(node: Node) -> Expr:
    """x / (bias + alpha * s)^beta; s sums the squares of `radius` elements before and `radius` from it on."""
    x, radius, depth = node[0], int(node.option("radius")), node.shape()[-1]
    last = node.rank() - 1
    around = op.nn.pad(x * x, [(0, 0)] * last + [(radius, radius)])
    total = slice_axis(around, last, 0, depth)
    for step in range(1, 2 * radius):
        total = total + slice_axis(around, last, step, step + depth)
    scale = total * node.option("alpha") + node.option("bias")
    return x * op.power(scale, -node.option("beta"))


# --------- LOG_SOFTMAX; of 8 bits by exponentials and a logarithm in fixed point, as the reference kernel computes them
#: Bits before the point of the differences and the logarithm, and of the sum.
_BITS, _SUM_BITS = 5, 12


@converts("LOG_SOFTMAX")
def convert_log_softmax(node: Node) -> Expr:
    if not node.is_quantized():
        return op.nn.log_softmax(node[0], axis=-1)
    if node.dtype() == "int16":
        node.unsupported("quantized tensors of int16")
    return _of_8_bits(node)


def _of_8_bits(node: Node) -> Expr:
    """(x - max) - log(sum of exp(x - max)) in Q5.26, then in sixteenths, of which the last code is 0."""
    factor, most = scaled_differences(node, 1.0)
    differences = np.arange(-255, 1, dtype=np.int64)
    kept = differences >= -most
    raw = np.where(kept, fixed_point.multiply_array(differences, *factor), 0)
    exps = np.where(kept, fixed_point.divide_by_power_array(exp_of_negative(raw), _SUM_BITS), 0)
    x = cast(node[0], "int32")
    difference = x - op.max(x, axis=-1, keepdims=True)
    position = difference + 255
    total = op.sum(fixed_point.looked_up(exps, position), axis=-1, keepdims=True)
    logarithm = _log(total)
    back = fixed_point.quantize_multiplier((1 << (31 - factor[1])) / factor[0])
    reach = fixed_point.multiply(cast(logarithm - (1 << 31), "int32"), *back)
    least = op.maximum(reach, -most - 1)
    low, high = (int(limit) for limit in DType(node.output().dtype).limits())
    value = fixed_point.looked_up(raw, position, "int64") - logarithm
    value = fixed_point.divide_by_power(value, 31 - _BITS - 4) + high
    value = op.where(difference > least, value, low)
    return cast(op.clip(value, low, high), node.output().dtype)


def _whole(value: float) -> int:
    """A real number of -1 to 1 in Q0.31."""
    return round(value * (1 << 31))


def _log(total: Expr) -> Expr:
    """log(x) in Q5.26, int64, of int32 numbers in Q12.19 that are 1 or more."""
    root, fraction = _whole(0.5**0.5), 31 - (_BITS + 1)
    wide, zeros, quarter = cast(total, "int64"), leading_zeros(total), 1 << (fraction - 2)
    near = op.minimum(op.left_shift(high_product(op.left_shift(wide, zeros - 1), root), 1), _MOST)
    far_zeros = leading_zeros(cast(high_product(wide, root), "int32")) - 1
    far = op.minimum(op.left_shift(wide, far_zeros), _MOST)
    power = op.maximum(
        op.left_shift(_SUM_BITS - zeros, fraction) + quarter, op.left_shift(_SUM_BITS - far_zeros, fraction) - quarter
    )
    numerator, reciprocal = _quotient(op.minimum(near, far))
    within = high_product(power, 1488522236) + high_product(numerator, reciprocal)
    return op.clip(op.left_shift(within, 1), -(1 << 31), _MOST)


def _quotient(x: Expr) -> tuple[Expr, Expr]:
    """Numerator in Q6.25 and reciprocal of the denominator in Q0.31 of log(x * 2^(1/4)) for x around 2^(-1/4)."""
    fourth_root = 2.0**0.25
    centre = _whole(1 / fourth_root)
    middle, twice = op.right_shift(x + (centre + 1), 1), op.left_shift(x - centre, 1)
    square = high_product(twice, twice)
    cubic = high_product(high_product(twice, square), _whole(11 / 240 * fourth_root))
    numerator = fixed_point.divide_by_power(high_product(twice, x) + cubic, _BITS + 1)
    inner = _whole(2 / fourth_root - fourth_root) + twice + high_product(square, _whole(fourth_root / 20))
    return numerator, one_over_one_plus(high_product(middle, inner) + high_product(twice, _whole(fourth_root / 4)))


# ------------------------ L2_NORMALIZATION; of 8 bits with the reciprocal of the root by Newton's method in fixed point
@converts("L2_NORMALIZATION")
def convert_l2_normalization(node: Node) -> Expr:
    if node.is_quantized():
        if node.dtype() == "int16":
            node.unsupported("quantized tensors of int16")
        return _of_8_bits_of_l2_normalization(node)
    x = node[0]
    norm = op.sqrt(op.sum(x * x, axis=-1, keepdims=True))
    return activated(node, x / op.maximum(norm, 1e-6))


def _of_8_bits_of_l2_normalization(node: Node) -> Expr:
    """In steps of 1/128: unsigned codes are multiplied by 128 first, signed ones by the shift, which rounds less."""
    x = fixed_point.centred(node, 0)
    multiplier, shift = inverse_sqrt(op.sum(x * x, axis=-1, keepdims=True))
    wide = cast(x, "int64")
    if node.dtype() == "uint8":
        value = fixed_point.multiply_each(op.left_shift(wide, 7), multiplier, shift)
        return cast(op.clip(value + 128, 0, 255), "uint8")
    return cast(op.clip(fixed_point.multiply_each(wide, multiplier, shift + 7), -128, 127), "int8")


def inverse_sqrt(value: Expr) -> tuple[Expr, Expr]:
    """(m, shift), int64, of 1 / sqrt(value) of int32 numbers, by Newton's method in Q3.28 as the kernels compute it."""
    large = value >= (1 << 29)
    pairs = op.right_shift(leading_zeros(op.maximum(value, 1)) - 1, 1) - 1
    pairs = op.where(large, 0, pairs)
    right = 11 + cast(large, "int64") - pairs
    wide = cast(value, "int64")
    wide = op.where(large, op.right_shift(wide, 2), op.left_shift(wide, op.left_shift(pairs, 1)))
    halved = op.right_shift(op.right_shift(wide, 1) + 1, 1)
    x: Expr = constant(1 << 28, "int64")
    for _ in range(5):
        cube = _rescaled(high_product(high_product(x, x), x), 6)
        x = _rescaled(high_product(x, 3 << 27) - high_product(halved, cube), 3)
    x = op.left_shift(high_product(x, 1518500250), op.maximum(-right, 0))
    small = value <= 1
    return op.where(small, _MOST, x), op.where(small, 0, op.minimum(-right, 0))


def _rescaled(value: Expr, positions: int) -> Expr:
    return op.clip(op.left_shift(value, positions), -(1 << 31), _MOST)
