"""DIV; of integers by the reciprocal of the divisor in fixed point, as the reference kernel computes it.

A quotient is the dividend, shifted to 31 bits, times the reciprocal of the divisor, also of 31 bits, times a factor,
shifted back. Of 8 bits the quotients of all pairs of codes are a table; of 16 bits what belongs to one code is.
Where less than half a step is left, the kernel shifts by more than 31 bits, which C leaves undefined; here that is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.idioms import cast, constant
from tilewright.frontend.tflite.activation import activated, fused_activation
from tilewright.frontend.tflite.fixed_point import (
    activation_range,
    divide_by_each_power,
    divide_by_power_array,
    quantize_multiplier,
    zero_point,
)
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.normalization import high_product
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

_MOST = (1 << 31) - 1
#: Numbers of 32 bits are 0 behind shifts by more.
_MOST_SHIFT = 62


@converts("DIV")
def convert_div(node: Node) -> Expr:
    if not node.is_quantized():
        return activated(node, op.divide(node[0], node[1]))
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
    places = [op.subtract(cast(node[index], "int32"), constant(least, "int32")) for index in (0, 1)]
    place = op.add(op.left_shift(places[0], constant(8, "int32")), places[1])
    return op.take(constant(table.reshape(-1), dtype), place, axis=0, mode="fast")


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
    negative = op.less(b, zero)
    wide, headroom = _looked_up(_dividends(np.arange(-(1 << 15), (1 << 15) + 1)), op.where(negative, op.negative(a), a))
    inverse, over = _looked_up(_divisors(np.abs(np.arange(-(1 << 15), 1 << 15))), b)
    value = high_product(high_product(wide, inverse), constant(_factor(node)[0], "int64"))
    right = op.subtract(op.add(over, headroom), constant(_factor(node)[1], "int64"))
    value = op.clip(divide_by_each_power(value, op.clip(right, 0, _MOST_SHIFT)), -_MOST, _MOST)
    value = op.clip(op.add(value, constant(zero_point(wanted), "int64")), low, high)
    end = op.where(op.less(a, zero), constant(low, "int64"), constant(high, "int64"))
    return cast(op.where(op.equal(b, zero), end, value), "int16")


def _looked_up(tables: tuple[np.ndarray, np.ndarray], value: Expr) -> list[Expr]:
    """int64 entries of both tables for int32 numbers of which -32768 is the first."""
    place = op.add(value, constant(1 << 15, "int32"))
    return [cast(op.take(constant(table, "int32"), place, axis=0, mode="fast"), "int64") for table in tables]


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
    """How many bits whole numbers below 2^53 take."""
    return np.frexp(values.astype(np.float64))[1].astype(np.int64)


def _high(a: np.ndarray, b: Any) -> np.ndarray:
    return (a * b + (1 << 30)) >> 31
