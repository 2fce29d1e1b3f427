"""Reference element-wise functions that NumPy lacks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

_STEP, _LIMIT, _TERMS = 1.0 / 16.0, 6.0, 12


def _wide(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, np.float64)


def at_least_float32(x: np.ndarray) -> np.ndarray:
    """Floats of 16 bits as float32, others as they are: what functions of several steps are computed in."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def _like(value: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.asarray(value).astype(np.asarray(x).dtype)


@lru_cache(maxsize=1)
def _erf_tables() -> tuple[np.ndarray, np.ndarray]:
    """Grid points, and the Taylor coefficients of erf around each, by the recurrence of the Hermite polynomials."""
    centres = np.arange(0.0, _LIMIT + _STEP, _STEP)
    coefficients = np.zeros((_TERMS, centres.size))
    coefficients[0] = [math.erf(c) for c in centres]
    slope = 2.0 / math.sqrt(math.pi) * np.exp(-centres * centres)
    previous, current = np.zeros_like(centres), np.ones_like(centres)
    for k in range(1, _TERMS):
        coefficients[k] = slope * current * (-1.0) ** (k - 1) / math.factorial(k)
        previous, current = current, 2.0 * centres * current - 2.0 * (k - 1) * previous
    return centres, coefficients


def erf(x: np.ndarray) -> np.ndarray:
    """The error function to within 1e-15, in the type of `x` (float64 inside): Taylor series around a grid."""
    wide = _wide(x)
    centres, coefficients = _erf_tables()
    magnitude = np.minimum(np.abs(wide), _LIMIT)
    nearest = np.where(np.isnan(magnitude), 0.0, magnitude / _STEP + 0.5).astype(np.int64)
    offset = magnitude - centres[nearest]
    value = np.zeros_like(wide)
    for k in reversed(range(_TERMS)):
        value = value * offset + coefficients[k][nearest]
    return _like(np.copysign(np.minimum(value, 1.0), wide), x)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow, in the type of `x`."""
    wide = _wide(x)
    small = np.exp(-np.abs(wide))
    return _like(np.where(wide >= 0, 1.0, small) / (1.0 + small), x)


def floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The quotient rounded down; of floats the quotient as their type holds it, where NumPy takes the exact one."""
    if a.dtype.kind not in "iu":
        return np.floor(a / b).astype(a.dtype)
    with np.errstate(divide="ignore", over="ignore"):
        return np.floor_divide(a, b)


def floor_mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder of `floor_divide`, with the sign of `b`; of integers by 0 it is 0."""
    with np.errstate(divide="ignore"):
        return np.mod(a, b)


def trunc_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b; on integers the quotient rounded towards zero (0 where b is 0, wrapped around where it does not fit)."""
    if np.asarray(a).dtype.kind not in "iu":
        return np.divide(a, b)
    with np.errstate(divide="ignore", over="ignore"):
        quotient = np.floor_divide(a, b)  # NumPy returns 0 where b is 0
        inexact = (quotient * b != a) & (np.asarray(b) != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
        return np.asarray(quotient + inexact).astype(a.dtype)


def trunc_mod(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Remainder of `trunc_divide`, with the sign of `a` (C's % and fmod); of integers by 0 it is 0."""
    with np.errstate(divide="ignore"):
        return np.fmod(a, b)


def integer_power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a to the power of b; of a negative exponent cut off, which is 0 but of 1 and -1.

    Exponents beyond 63, of which the power fits for 0, 1 and -1 only, count as 62 or 63.
    """
    odd = b & 1
    unit = (a == 1) | ((a == -1) if a.dtype.kind == "i" else False)
    exponent = np.where(b < 0, odd, np.minimum(b, 62 + odd)).astype(a.dtype)
    with np.errstate(over="ignore"):
        return np.where((b < 0) & ~unit, 0, np.power(a, exponent)).astype(a.dtype)


def cast(x: np.ndarray, dtype: Any) -> np.ndarray:
    """`x` converted as the loop IR does: float to int rounds towards zero, anything to bool means != 0."""
    given = np.asarray(x)
    with np.errstate(invalid="ignore", over="ignore"):
        if given.dtype.itemsize == 1 and given.dtype.kind == "V":  # narrow types do not all convert to each other
            given = given.astype(np.float32)
        return given.astype(dtype)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def erfc(x: np.ndarray) -> np.ndarray:
    """1 - erf(x), in the type of `x` (float64 inside)."""
    return _like(_erfc(_wide(x)), x)


def silu(x: np.ndarray) -> np.ndarray:
    """x * sigmoid(x), in the type of `x`."""
    return _like(_times_sigmoid(_wide(x), _wide(x)), x)


def _times_sigmoid(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return x * sigmoid(y)


def mish(x: np.ndarray) -> np.ndarray:
    """x * tanh(log(1 + exp(x))), in the type of `x`."""
    wide = _wide(x)
    return _like(wide * np.tanh(np.logaddexp(wide, 0.0)), x)


def gelu(x: np.ndarray) -> np.ndarray:
    """x times the normal distribution function, in the type of `x`."""
    wide = _wide(x)
    return _like(wide * 0.5 * _erfc(wide * -math.sqrt(0.5)), x)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """`gelu` in its approximation by tanh, in the type of `x`."""
    wide = _wide(x)
    with np.errstate(all="ignore"):
        return _like(_times_sigmoid(wide, 2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)), x)
