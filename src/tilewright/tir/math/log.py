"""log of float32, within 2 ulp (1.2 measured), denormal arguments included.

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
    float32_like,
    fma,
    from_bits,
    horner,
    like,
    select,
    shift_left,
    shift_right,
)

LN2 = 0.6931471805599453
SMALLEST_NORMAL = 1.1754943508222875e-38
TWO_THIRDS_BITS = 0x3F2AAAAB
COEFFICIENTS = (
    -0.5, 0.3333321511745453, -0.2499980479478836, 0.20010435581207275, -0.16680222749710083,
    0.14005537331104279, -0.12187429517507553, 0.1398565173149109, -0.1287938356399536,
)  # fmt: skip


def lower_log(x: Expr) -> Expr:
    """log(x) of float32 lanes: log(0) = -inf, log(inf) = inf, NaN below zero."""
    e, m = split_exponent(x)
    f = m - like(x, 1.0)
    p = horner(f, COEFFICIENTS)
    log1p = fma(f * f, p, f)
    result = fma(e, LN2, log1p)
    positive = select(x < like(x, INFINITY), result, INFINITY)
    return select(x > like(x, 0.0), positive, select(op.eq(x, like(x, 0.0)), like(x, -INFINITY), NAN))


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """(e, m) as float32 with x = m * 2**e and m in [2/3, 4/3), for 0 < x < inf; anything elsewhere."""
    denormal = x < like(x, SMALLEST_NORMAL)
    bits = bits_of(select(denormal, x * like(x, 2.0**23), x))
    exponent = shift_right(bits - like(bits, TWO_THIRDS_BITS), 23)
    m = from_bits(bits - shift_left(exponent, 23))
    e = op.cast(float32_like(x), exponent)
    return select(denormal, e - like(x, 23.0), e), m
