"""TensorFlow Lite's fixed-point arithmetic: real factors as Q31 numbers with a shift, and products rounded twice.

Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference (CVPR 2018),
section 2.2; the roundings are those of gemmlowp: the high half of a product to the nearest, halves up, then the
division by a power of two to the nearest, halves away from zero.

Functions on expressions have twins on arrays (`_array`), from which the tables of one-operand functions are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.idioms import cast, constant, dtype_of
from tilewright.frontend.tflite.model import Quantization
from tilewright.frontend.tflite.node import Node
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

_Q31 = 1 << 31


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(m, shift) with real = m * 2^(shift - 31), m of 31 bits."""
    if real == 0.0:
        return 0, 0
    fraction, shift = math.frexp(real)
    fixed = math.floor(fraction * _Q31 + 0.5)
    if fixed == _Q31:
        fixed, shift = fixed // 2, shift + 1
    return (0, 0) if shift < -31 else (fixed, shift)


def quantize_multipliers(reals: Any) -> tuple[np.ndarray, np.ndarray]:
    """`quantize_multiplier` of each of several factors."""
    pairs = [quantize_multiplier(float(real)) for real in np.asarray(reals, np.float64).reshape(-1)]
    return np.array([m for m, _ in pairs], np.int64), np.array([shift for _, shift in pairs], np.int64)


def multiply(x: Expr, multiplier: Any, shift: Any) -> Expr:
    """int32 `x` times multiplier * 2^(shift - 31), rounded twice; both numbers, or arrays that broadcast to x."""
    m, s = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    left, right = np.maximum(s, 0), np.maximum(-s, 0)
    if left.any():
        x = op.left_shift(x, constant(left, dtype_of(x)))
    wide = cast(x, "int64") * m
    high = op.right_shift(wide + (1 << 30), 31)
    return cast(divide_by_power(high, right), "int32")


def multiply_once(x: Expr, multiplier: Any, shift: Any) -> Expr:
    """`multiply` with one rounding of the exact product, halves up: how the kernels of FULLY_CONNECTED scale int8."""
    m, total = np.asarray(multiplier, np.int64), 31 - np.asarray(shift, np.int64)
    wide = cast(x, "int64") * m
    rounded = wide + constant(np.int64(1) << (total - 1), "int64")
    return cast(op.right_shift(rounded, total), "int32")


def multiply_each(x: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """`multiply` where the factor is computed too: int64 expressions that broadcast to `x`, int64."""
    none = constant(0, "int64")
    left, right = op.maximum(shift, none), op.maximum(-shift, none)
    wide = op.left_shift(x, left) * multiplier
    return divide_by_each_power(op.right_shift(wide + (1 << 30), 31), right)


def divide_by_each_power(x: Expr, exponent: Expr) -> Expr:
    """`divide_by_power` of int64 by an expression of exponents."""
    one, none = constant(1, "int64"), constant(0, "int64")
    half = op.right_shift(op.left_shift(one, exponent), one)
    negative = op.logical_and(x < none, exponent > none)
    return op.right_shift(x + half - cast(negative, "int64"), exponent)


def divide_by_power(x: Expr, exponent: Any) -> Expr:
    """x / 2^exponent to the nearest, halves away from zero."""
    exponent = np.asarray(exponent, np.int64)
    if not exponent.any():
        return x
    dtype = dtype_of(x)
    negative = op.right_shift(x, constant(DType(dtype).bits - 1, dtype))
    if not exponent.all():
        negative = negative * constant(exponent > 0, dtype)
    rounded = x + constant((1 << exponent) >> 1, dtype) + negative
    return op.right_shift(rounded, constant(exponent, dtype))


def multiply_wide(x: Expr, multiplier: Any, shift: Any) -> Expr:
    """int64 sums times multiplier * 2^(shift - 31), the multiplier cut to 15 bits, rounded once; as int32."""
    m, s = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    reduced = np.where(m < 0x7FFF0000, (m + (1 << 15)) >> 16, 0x7FFF)
    total = 15 - s
    product = x * reduced
    rounded = product + constant(np.int64(1) << (total - 1), "int64")
    return cast(op.right_shift(rounded, total), "int32")


def multiply_array(x: np.ndarray, multiplier: int, shift: int) -> np.ndarray:
    """`multiply` of an array."""
    wide = (np.asarray(x, np.int64) << max(shift, 0)) * multiplier
    return divide_by_power_array((wide + (1 << 30)) >> 31, max(-shift, 0))


def divide_by_power_array(x: np.ndarray, exponent: int) -> np.ndarray:
    """`divide_by_power` of an array."""
    x = np.asarray(x, np.int64)
    return (x + (1 << exponent >> 1) - (x < 0)) >> exponent if exponent else x


def round_array(x: Any) -> np.ndarray:
    """Whole numbers, halves away from zero, in the type of `x`."""
    x = np.asarray(x)
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0).astype(x.dtype)


def activation_range(node: Node, activation: str) -> tuple[int, int]:
    """The integers that output 0 may take under a fused activation."""
    low, high = DType(node.output().dtype).limits()
    if activation == "NONE":
        return int(low), int(high)
    quantization = node.output_quantization()

    def quantized(value: float) -> int:
        return quantization.zero + int(round_array(np.float32(value) / quantization.scale[0]))

    limits = {"RELU": (0.0, math.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}
    if activation not in limits:
        node.unsupported(f"the fused activation {activation} on integers")
    least, most = limits[activation]
    return max(int(low), quantized(least)), int(high) if math.isinf(most) else min(int(high), quantized(most))


def finish(node: Node, value: Expr, activation: str) -> Expr:
    """int32 `value`, a multiple of the output's scale, as the output: zero point added, limited, narrowed."""
    low, high = activation_range(node, activation)
    zero = node.output_quantization().zero
    if zero:
        value = value + zero
    return cast(op.clip(value, low, high), node.output().dtype)


def centred(node: Node, index: int, dtype: str = "int32") -> Expr:
    """Input `index` less its zero point, in `dtype`."""
    value, zero = cast(node[index], dtype), node.input_quantization(index).zero
    return value - zero if zero else value


def rescaling(given: Quantization, wanted: Quantization, kind: type = float) -> tuple[int, int]:
    """The factor, as `quantize_multiplier`, from the steps of one quantization to those of another.

    Some kernels divide in float32.
    """
    return quantize_multiplier(float(kind(given.step) / kind(wanted.step)))


def by_table(node: Node, function: Callable[[np.ndarray], np.ndarray], index: int = 0) -> Expr:
    """Input `index`, integers of 8 or 16 bits, each replaced by what `function` makes of it (int64 to int64)."""
    dtype = DType(node.dtype(index))
    low, high = dtype.limits()
    codes = np.arange(int(low), int(high) + 1, dtype=np.int64)
    out = node.output().dtype
    least, most = DType(out).limits()
    table = np.clip(function(codes), int(least), int(most))
    position = cast(node[index], "int32")
    return looked_up(table, position - int(low) if low else position, out)


def looked_up(table: np.ndarray, position: Expr, dtype: str = "int32") -> Expr:
    """The entries of a table at positions that it has."""
    return op.take(constant(table, dtype), position, axis=0, mode="fast")


def centred_table(node: Node, function: Callable[[np.ndarray], Any]) -> Expr:
    """`by_table` with codes less the input's zero point, and the output's added to what `function` makes of them."""
    given, wanted = node.input_quantization(), node.output_quantization()
    return by_table(node, lambda codes: function(codes - given.zero) + wanted.zero)


def real_table(node: Node, function: Callable[[np.ndarray], np.ndarray]) -> Expr:
    """Input 0, quantized, through a real function in float32: dequantized, computed, quantized anew.

    Of 16 bits the kernels have 513 values, between which they interpolate.
    """
    given, wanted = node.input_quantization(), node.output_quantization()
    if node.dtype() == "int16":
        return by_table(node, lambda codes: _interpolated(codes, _samples(node, function)))

    def entry(codes: np.ndarray) -> np.ndarray:
        real = given.scale[0] * (codes - given.zero).astype(np.float32)
        with np.errstate(all="ignore"):
            scaled = function(real).astype(np.float32) * (np.float32(1) / wanted.scale[0])
        return np.nan_to_num(np.clip(round_array(scaled), -1e9, 1e9)).astype(np.int64) + wanted.zero

    return by_table(node, entry)


_STEPS = 512


def _samples(node: Node, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The function at the ends of 512 equal parts of the input's range, as codes, the error in the middle shared."""
    given, wanted = node.input_quantization(), node.output_quantization()
    low, high = (given.scale[0] * np.float32(end - given.zero) for end in (-32768, 32767))
    least, most = (wanted.scale[0] * np.float32(end - wanted.zero) for end in (-32768, 32767))
    step, inverse = (high - low) / np.float32(_STEPS), np.float32(65536) / (most - least)
    begins = low + np.arange(_STEPS, dtype=np.float32) * step
    ends = low + np.arange(1, _STEPS + 1, dtype=np.float32) * step
    with np.errstate(all="ignore"):
        here, middle, there = (
            function(x).astype(np.float32) * inverse for x in (begins, begins + step / np.float32(2), ends)
        )
        last = round_array(function(high.reshape(1)).astype(np.float32) * inverse)
        between = round_array((there + round_array(here)) / np.float32(2))
        inside = round_array(here) - round_array((between - round_array(middle)) / np.float32(2))
    return np.clip(np.nan_to_num(np.concatenate([inside, last]), nan=-32768), -32768, 32767).astype(np.int64)


def _interpolated(codes: np.ndarray, samples: np.ndarray) -> np.ndarray:
    """Between the samples before and behind a code, in 128 steps."""
    position, offset = 256 + (codes >> 7), codes & 127
    slope = (samples[position + 1] - samples[position] + 32768) % 65536 - 32768  # kept in 16 bits
    return samples[position] + ((slope * offset + 64) >> 7)


# Sigmoid and tanh of 16-bit fixed-point numbers as gemmlowp computes them, on arrays, from which tables are made.
_LEAST, _MOST = -(1 << 15), (1 << 15) - 1
#: e^-(2^exponent) in Q0.31.
POWERS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242),
)  # fmt: skip


def _short(q31: int) -> int:
    """A constant of 32 bits in 16."""
    return (q31 + (1 << 15)) >> 16


def high_half(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """The high half of the doubled product of numbers of 16 bits, to the nearest, halves away from zero."""
    product = np.asarray(a, np.int64) * b
    nudge = np.where(product >= 0, 1 << 14, 1 - (1 << 14))
    whole = np.abs(product + nudge) >> 15
    return np.minimum(np.where(product + nudge < 0, -whole, whole), _MOST)


def _widened(a: np.ndarray, bits: int) -> np.ndarray:
    """a * 2^bits within 16 bits."""
    return np.clip(np.asarray(a, np.int64) << bits, _LEAST, _MOST)


def _exp_of_negative(raw: np.ndarray, integer_bits: int) -> np.ndarray:
    """exp of Qm.n numbers that are not positive, in Q0.15."""
    fraction = 15 - integer_bits
    quarter = 1 << (fraction - 2)
    inside = (raw & (quarter - 1)) - quarter
    rest = inside - raw
    x = _widened(inside, integer_bits) + (1 << 12)
    x2 = high_half(x, x)
    x3, x4 = high_half(x2, x), high_half(x2, x2)
    tail = high_half(divide_by_power_array(x4, 2) + x3, _short(715827883)) + x2
    first = _short(1895147668)
    result = np.clip(first + high_half(x + divide_by_power_array(tail, 1), first), _LEAST, _MOST)
    for exponent, power in POWERS:
        if integer_bits > exponent:
            result = np.where(rest & (1 << (fraction + exponent)), high_half(result, _short(power)), result)
    if integer_bits > 5:
        result = np.where(raw < -(1 << (fraction + 5)), 0, result)
    return np.where(raw == 0, _MOST, result)


def _newton(a: np.ndarray) -> np.ndarray:
    """2 / (1 + a) in Q2.13 for a in Q0.15 of 0 to 1."""
    half = (a + _MOST + 1) >> 1
    x = _short(1515870810) + high_half(half, _short(-1010580540))
    for _ in range(3):
        x = x + _widened(high_half(x, (1 << 13) - high_half(half, x)), 2)
    return x


def sigmoid_16(codes: np.ndarray, integer_bits: int) -> np.ndarray:
    """The logistic function of Qm.n numbers in Q0.15."""
    positive = _widened(_newton(_exp_of_negative(-np.abs(codes), integer_bits)), 1)
    result = np.where(codes > 0, positive, _MOST - positive)
    return np.where(codes == 0, 1 << 14, result)


def tanh_16(codes: np.ndarray, integer_bits: int) -> np.ndarray:
    """The hyperbolic tangent of Qm.n numbers in Q0.15."""
    doubled = _exp_of_negative(-np.abs(codes), integer_bits + 1)
    magnitude = _widened(_newton(doubled) - (1 << 13), 2)
    return np.where(codes == 0, 0, np.where(codes < 0, -magnitude, magnitude))
