"""Inverse trigonometric and hyperbolic functions, logarithms to other bases: formulas over the functions codegen has.

They hold in float32 to a few ulp (docs/numerics.md says how many), near zero and at the ends of their domains too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.support.named import named
from tilewright.te import Tensor
from tilewright.topi.elemwise import in_float32, unary

_TAN_PI_8 = math.tan(math.pi / 8)


def _atan_series() -> list[float]:
    """Coefficients c of atan(t) = t Σ c[k] t^2k on |t| <= tan(π / 8), fitted at Chebyshev points to 1e-10."""
    square = (np.cos(np.pi * (np.arange(64) + 0.5) / 64) + 1) / 2 * _TAN_PI_8**2
    root = np.sqrt(square)
    return np.polynomial.polynomial.polyfit(square, np.arctan(root) / root, 7).tolist()


_ATAN = _atan_series()
_SINH = [1 / math.factorial(2 * k + 1) for k in range(9)]


def _number(value: float, like: Any) -> Any:
    return tir.const(value, like.dtype)


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    total = _number(coefficients[-1], x)
    for coefficient in coefficients[-2::-1]:
        total = total * x + _number(coefficient, x)
    return total


def _with_sign(magnitude: Any, x: Any) -> Any:
    return tir.select(x < _number(0, x), tir.negative(magnitude), magnitude)


def _atan(x: Any) -> Any:
    """By reduction to |t| <= tan(π / 8): atan(x) = π/2 - atan(1/x) = π/4 + atan((x - 1) / (x + 1))."""
    one, size = _number(1, x), tir.abs(x)
    large, middle = size > _number(1 / _TAN_PI_8, x), size > _number(_TAN_PI_8, x)
    shifted = (size - one) / (size + one)
    reduced = tir.select(large, tir.negative(one / size), tir.select(middle, shifted, size))
    start = tir.select(large, _number(math.pi / 2, x), tir.select(middle, _number(math.pi / 4, x), _number(0, x)))
    return _with_sign(start + reduced * _polynomial(reduced * reduced, _ATAN), x)


def _asin(x: Any) -> Any:
    """atan(x / sqrt((1 - x) (1 + x))); at the ends the quotient is infinite, as atan expects."""
    one = _number(1, x)
    return _atan(x / tir.sqrt((one - x) * (one + x)))


def _acos(x: Any) -> Any:
    """π/2 - asin(x); above 1/2, where that would cancel, 2 atan(sqrt((1 - x) / (1 + x)))."""
    one, large = _number(1, x), x > _number(0.5, x)
    below, above = one - x, one + x
    angle = _atan(tir.select(large, tir.sqrt(below / above), x / tir.sqrt(below * above)))
    return tir.select(large, angle + angle, _number(math.pi / 2, x) - angle)


def _sinh(x: Any) -> Any:
    """(e^x - e^-x) / 2, and its series where the difference would cancel."""
    grown, shrunk = _half_exponentials(x)
    small = x * _polynomial(x * x, _SINH)
    return tir.select(tir.abs(x) < _number(1, x), small, _with_sign(grown - shrunk, x))


def _cosh(x: Any) -> Any:
    grown, shrunk = _half_exponentials(x)
    return grown + shrunk


def _half_exponentials(x: Any) -> tuple[Any, Any]:
    """e^|x| / 2 and e^-|x| / 2; beyond 64 the former as a square, whose root does not overflow early but errs twice."""
    size, half = tir.abs(x), _number(0.5, x)
    near = size < _number(64, x)
    root = tir.exp(tir.select(near, size, size * half))
    halved = root * half
    return tir.select(near, halved, root * halved), tir.select(near, half / root, half / root / root)


def _asinh(x: Any) -> Any:
    """log1p(|x| + x² / (1 + sqrt(x² + 1))) with the sign of x; |x| above 1e9 as log(2 |x|)."""
    size, one = tir.abs(x), _number(1, x)
    near = tir.minimum(size, _number(1e9, x))
    square = near * near
    inside = tir.log1p(near + square / (one + tir.sqrt(square + one)))
    far = tir.log(size) + _number(math.log(2), x)
    return _with_sign(tir.select(size > _number(1e9, x), far, inside), x)


def _acosh(x: Any) -> Any:
    """log1p(t + sqrt(2 t + t²)) with t = x - 1; x above 1e9 as log(2 x)."""
    t = tir.minimum(x - _number(1, x), _number(1e9, x))
    inside = tir.log1p(t + tir.sqrt(t * (t + _number(2, x))))
    far = tir.select(x > _number(1e9, x), tir.log(x) + _number(math.log(2), x), inside)
    return tir.select(t < _number(0, x), _number(math.nan, x), far)


def _atanh(x: Any) -> Any:
    """log1p(2 |x| / (1 - |x|)) / 2 with the sign of x."""
    size = tir.abs(x)
    return _with_sign(tir.log1p((size + size) / (_number(1, x) - size)) * _number(0.5, x), x)


def _named(function: Callable[[Any], Any], name: str, doc: str) -> Callable[[Tensor], Tensor]:
    """The function of float32, of 16-bit floats through it, and of float64 that of the C library."""

    def element(x: Any) -> Any:
        if x.dtype.bits == 64:
            return tir.call_intrin(x.dtype, name, x)
        return in_float32(function, x)

    return named(lambda x: unary(x, element, name), name, doc)


atan = _named(_atan, "atan", "Arc tangent, in radians.")
asin = _named(_asin, "asin", "Arc sine, in radians.")
acos = _named(_acos, "acos", "Arc cosine, in radians.")
sinh = _named(_sinh, "sinh", "Hyperbolic sine.")
cosh = _named(_cosh, "cosh", "Hyperbolic cosine.")
asinh = _named(_asinh, "asinh", "Inverse of the hyperbolic sine.")
acosh = _named(_acosh, "acosh", "Inverse of the hyperbolic cosine.")
atanh = _named(_atanh, "atanh", "Inverse of the hyperbolic tangent.")
expm1 = _named(tir.expm1, "expm1", "exp(x) - 1, exact to the last places near 0 too.")
log1p = _named(tir.log1p, "log1p", "log(1 + x), exact to the last places near 0 too.")
log2 = _named(lambda x: tir.log(x) * _number(1 / math.log(2), x), "log2", "Logarithm to base 2.")
log10 = _named(lambda x: tir.log(x) * _number(1 / math.log(10), x), "log10", "Logarithm to base 10.")
