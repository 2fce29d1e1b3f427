"""log of float32, within 2 ulp (1.2 measured), denormal arguments included, log(1 + x) within 2 ulp, log2 and log10.

x = m * 2**e with m in [2/3, 4/3); log(x) = e*ln2 + log1p(m - 1), the latter as f - f**2/2 + f**3*P(f) with a degree 10
minimax polynomial (relative error 5e-9).
"""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Expr
from tilewright.tir.math.common import (
    INFINITY,
    NAN,
    bits_of,
    fabs,
    float32_like,
    fma,
    from_bits,
    horner,
    like,
    select,
    shift_left,
    shift_right,
)
from tilewright.tir.math.double import LOG2_E, log64, wide

LN2, LOG10_E = 0.6931471805599453, 0.4342944819032518
SMALLEST_NORMAL = 1.1754943508222875e-38
TWO_THIRDS_BITS, ONE_BITS = 0x3F2AAAAB, 0x3F800000
TINY = 2.0**-26  # x**2 / 2 is nothing beside x below
COEFFICIENTS = (
    -0.5, 0.3333321511745453, -0.2499980479478836, 0.20010435581207275, -0.16680222749710083,
    0.14005537331104279, -0.12187429517507553, 0.1398565173149109, -0.1287938356399536,
)  # fmt: skip


def lower_log(x: Expr) -> Expr:
    """log(x) of float32 lanes: log(0) = -inf, log(inf) = inf, NaN below zero."""
    e, m = split_exponent(x)
    return _at_the_ends(x, _of_parts(e, m - like(x, 1.0)))


def _at_the_ends(x: Expr, result: Expr) -> Expr:
    """`result` where 0 < x < inf; -inf at 0, inf at inf, NaN below and at NaN."""
    positive = select(x < like(x, INFINITY), result, INFINITY)
    return select(x > like(x, 0.0), positive, select(op.eq(x, like(x, 0.0)), like(x, -INFINITY), NAN))


def lower_log2(x: Expr) -> Expr:
    """log2(x) of float32 lanes, in float64 and rounded at the end: log2(0) = -inf, log2(inf) = inf, NaN below zero."""
    return _to_base(x, LOG2_E)


def lower_log10(x: Expr) -> Expr:
    """log10(x) of float32 lanes, as `lower_log2`."""
    return _to_base(x, LOG10_E)


def _to_base(x: Expr, factor: float) -> Expr:
    made = log64(wide(x))
    return _at_the_ends(x, op.cast(float32_like(x), made * like(made, factor)))


def lower_log1p(x: Expr) -> Expr:
    """log(1 + x) of float32 lanes: -inf at -1, NaN below, and a small x stays as it is.

    What rounding 1 + x loses is added to the mantissa, where a small change of it changes the logarithm alike.
    """
    whole = like(x, 1.0) + x
    larger = select(x < like(x, 1.0), 1.0, x)
    lost = select(x < like(x, 1.0), x, 1.0) - (whole - larger)
    bits = bits_of(whole)
    exponent = shift_right(bits - like(bits, TWO_THIRDS_BITS), 23)
    m = from_bits(bits - shift_left(exponent, 23))
    scale = from_bits(like(bits, ONE_BITS) - shift_left(op.minimum(exponent, like(exponent, 100)), 23))  # 2**-e
    f = fma(lost, scale, m - like(x, 1.0))
    result = _of_parts(op.cast(float32_like(x), exponent), f)
    result = select(x < like(x, INFINITY), result, x)  # NaN too
    result = select(x > like(x, -1.0), result, select(op.eq(x, like(x, -1.0)), like(x, -INFINITY), NAN))
    return select(fabs(x) < like(x, TINY), x, result)


def _of_parts(e: Expr, f: Expr) -> Expr:
    """The logarithm of (1 + f) * 2**e."""
    return fma(e, LN2, fma(f * f, horner(f, COEFFICIENTS), f))


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """(e, m) as float32 with x = m * 2**e and m in [2/3, 4/3), for 0 < x < inf; anything elsewhere."""
    denormal = x < like(x, SMALLEST_NORMAL)
    bits = bits_of(select(denormal, x * like(x, 2.0**23), x))
    exponent = shift_right(bits - like(bits, TWO_THIRDS_BITS), 23)
    m = from_bits(bits - shift_left(exponent, 23))
    e = op.cast(float32_like(x), exponent)
    return select(denormal, e - like(x, 23.0), e), m
