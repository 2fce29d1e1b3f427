"""Sigmoid and tanh of 16-bit fixed-point numbers as gemmlowp computes them, on arrays, from which tables are made.

Numbers are Qm.n with m bits before the point, n = 15 - m behind it. exp of what is not positive is a series on the last
quarter before zero, times a power of e for each bit of the rest; fractions are Newton's method on the denominator.
"""

from __future__ import annotations

import numpy as np

from tilewright.frontend.tflite.fixed_point import divide_by_power_array

_LEAST, _MOST = -(1 << 15), (1 << 15) - 1
#: e^-(2^exponent) in Q0.31.
_POWERS = (
    (-2, 1672461947), (-1, 1302514674), (0, 790015084), (1, 290630308), (2, 39332535), (3, 720401), (4, 242),
)  # fmt: skip


def _short(q31: int) -> int:
    """A constant of 32 bits in 16."""
    return (q31 + (1 << 15)) >> 16


def _high(a: np.ndarray, b: np.ndarray | int) -> np.ndarray:
    """The doubled product's high half, to the nearest, halves away from zero."""
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
    x2 = _high(x, x)
    x3, x4 = _high(x2, x), _high(x2, x2)
    tail = _high(divide_by_power_array(x4, 2) + x3, _short(715827883)) + x2
    first = _short(1895147668)
    result = np.clip(first + _high(x + divide_by_power_array(tail, 1), first), _LEAST, _MOST)
    for exponent, power in _POWERS:
        if integer_bits > exponent:
            result = np.where(rest & (1 << (fraction + exponent)), _high(result, _short(power)), result)
    if integer_bits > 5:
        result = np.where(raw < -(1 << (fraction + 5)), 0, result)
    return np.where(raw == 0, _MOST, result)


def _newton(a: np.ndarray) -> np.ndarray:
    """2 / (1 + a) in Q2.13 for a in Q0.15 of 0 to 1."""
    half = (a + _MOST + 1) >> 1
    x = _short(1515870810) + _high(half, _short(-1010580540))
    for _ in range(3):
        x = x + _widened(_high(x, (1 << 13) - _high(half, x)), 2)
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
