"""pow of float32, within 2 ulp, with the special cases of C99.

x**y = 2**(y * log2|x|). The product reaches 150, so log2 is taken in float64 (relative error 1e-10); its fraction then
goes through a float32 exp2 polynomial.
"""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import And, Expr, Not, Or
from tilewright.tir.math.common import (
    INFINITY,
    NAN,
    bits_of,
    clamp,
    fabs,
    float32_like,
    horner,
    int32_like,
    like,
    select,
    shift_right,
)
from tilewright.tir.math.double import LOG2_E, ROUNDER64, log64, wide
from tilewright.tir.math.exp import power_of_two

EXP2_COEFFICIENTS = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359562039375, 0.009618500247597694,
    0.0013390980893746018, 0.00015328952576965094,
)  # fmt: skip


def lower_pow(x: Expr, y: Expr) -> Expr:
    """x**y of float32 lanes. Small constant exponents become products, 0.5 a square root."""
    short = _constant_power(x, y)
    if short is not None:
        return short
    magnitude = _exp2(wide(y) * _log2(fabs(x)))
    magnitude = select(Or(op.eq(y, like(y, 0.0)), op.eq(fabs(x), like(x, 1.0))), 1.0, magnitude)
    magnitude = select(op.eq(y, y), magnitude, NAN)
    return _with_sign(x, y, magnitude)


def _constant_power(x: Expr, y: Expr) -> Expr | None:
    if op.is_const(y, 1):
        return x
    if op.is_const(y, 2):
        return x * x
    if op.is_const(y, 3):
        return x * x * x
    if op.is_const(y, -1):
        return like(x, 1.0) / x
    if op.as_const(getattr(y, "value", None) if y.dtype.lanes > 1 else y) == 0.5:
        root = op.sqrt(x) + like(x, 0.0)  # (-0)**0.5 is +0
        return select(op.eq(x, like(x, -INFINITY)), like(x, INFINITY), root)
    return None


def _log2(x: Expr) -> Expr:
    """log2 of a float32 x >= 0 as float64, with -inf at 0 and inf at inf; NaN stays NaN."""
    size = wide(x)
    result = log64(size) * like(size, LOG2_E)
    finite = And(x > like(x, 0.0), x < like(x, INFINITY))
    return select(finite, result, select(op.eq(size, like(size, 0.0)), like(size, -INFINITY), size))


def _exp2(t: Expr) -> Expr:
    """2**t as float32 of a float64 t, in two factors so that denormal results round once."""
    t = clamp(t, -151.0, 129.0)
    n = (t + like(t, ROUNDER64)) - like(t, ROUNDER64)
    r = op.cast(float32_like(t), t - n)
    whole = op.cast(int32_like(t), select(op.eq(n, n), n, 0.0))
    half = shift_right(whole, 1)
    return horner(r, EXP2_COEFFICIENTS) * power_of_two(half) * power_of_two(whole - half)


def _with_sign(x: Expr, y: Expr, magnitude: Expr) -> Expr:
    """`magnitude` with the sign of x**y; NaN for a negative finite x and a y that is no integer; 1 for x = 1."""
    half = y * like(y, 0.5)
    integer = op.eq(op.floor(y), y)
    odd = And(integer, op.ne(op.floor(half), half))
    negative = bits_of(x) < like(bits_of(x), 0)
    signed = select(And(negative, odd), like(x, -0.0) - magnitude, magnitude)
    inside = And(x < like(x, 0.0), x > like(x, -INFINITY))
    signed = select(And(inside, Not(integer)), select(op.eq(y, like(y, 0.0)), like(y, 1.0), NAN), signed)
    always_one = Or(op.eq(x, like(x, 1.0)), op.eq(y, like(y, 0.0)))
    return select(always_one, 1.0, signed)
