"""pow of float32, within 2 ulp, with the special cases of C99.

x**y = 2**(y * log2|x|). The product reaches 150, so log2 is taken in float64 (degree 12 polynomial, relative error
1e-10); its fraction then goes through a float32 exp2 polynomial.
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
    float64_like,
    fma,
    from_bits,
    horner,
    int32_like,
    like,
    select,
    shift_left,
    shift_right,
)
from tilewright.tir.math.log import split_exponent

LOG2_COEFFICIENTS = (
    1.442695040747494, -0.7213475196228167, 0.4808984377992956, -0.3606739690176034, 0.2885295900830908,
    -0.24043414288969062, 0.20645423805637275, -0.18079615813498112, 0.15432617388101982, -0.13755011451954188,
    0.17607970604833237, -0.16581433906164694,
)  # fmt: skip
EXP2_COEFFICIENTS = (
    1.0, 0.6931471824645996, 0.24022647738456726, 0.05550359562039375, 0.009618500247597694,
    0.0013390980893746018, 0.00015328952576965094,
)  # fmt: skip
ROUNDER64 = 6755399441055744.0  # 1.5 * 2**52


def lower_pow(x: Expr, y: Expr) -> Expr:
    """x**y of float32 lanes. Small constant exponents become products, 0.5 a square root."""
    short = _constant_power(x, y)
    if short is not None:
        return short
    magnitude = _exp2(op.cast(float64_like(y), y) * _log2(fabs(x)))
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
    e, m = split_exponent(x)
    f = op.cast(float64_like(x), m) - like(op.cast(float64_like(x), m), 1.0)
    result = fma(f, horner(f, LOG2_COEFFICIENTS), op.cast(f.dtype, e))
    finite = And(x > like(x, 0.0), x < like(x, INFINITY))
    edge = select(op.eq(x, like(x, 0.0)), like(x, -INFINITY), x)
    return select(finite, result, op.cast(f.dtype, edge))


def _exp2(t: Expr) -> Expr:
    """2**t as float32 of a float64 t, in two factors so that denormal results round once."""
    t = clamp(t, -151.0, 129.0)
    n = (t + like(t, ROUNDER64)) - like(t, ROUNDER64)
    r = op.cast(float32_like(t), t - n)
    whole = op.cast(int32_like(t), select(op.eq(n, n), n, 0.0))
    half = shift_right(whole, 1)
    return horner(r, EXP2_COEFFICIENTS) * _power_of_two(half) * _power_of_two(whole - half)


def _power_of_two(n: Expr) -> Expr:
    return from_bits(shift_left(n + like(n, 127), 23))


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
