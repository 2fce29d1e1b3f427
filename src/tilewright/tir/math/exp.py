"""exp of float32 within 1 ulp (0.98 measured), denormal results included, and exp(x) - 1 within 2 ulp (1.4).

x = n*ln2 + r with an integer n and |r| <= ln2/2. exp(r) is 1 + p, where the polynomial p = r + r**2 * q(r) is small, so
that little of its rounding errors is left in the sum. 2**n is applied in two factors that are normal floats each; in
one it would overflow or lose the denormals.

The polynomials are minimax: weights of a least-squares fit over 500 Chebyshev points, to values of mpmath, are
multiplied by the errors found until the largest of them are equal (Lawson, 1961). Coefficients are rounded to float32
from the first on, and after each the others are fitted again; the errors stated are those of rounded coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from tilewright.tir.expr import Expr
from tilewright.tir.math.common import (
    bits_of,
    clamp,
    fabs,
    fma,
    from_bits,
    horner,
    like,
    select,
    shift_left,
    shift_right,
)

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693145751953125  # few bits, so that n * LN2_HIGH is exact even without a fused multiply-add
LN2_LOW = 1.4286068203094172e-06
ROUNDER = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, left in the low bits of the float
ONE_BITS = 0x3F800000
TINY = 2.0**-26  # x**2 / 2 is nothing beside x below
#: q(r), relative error 2.4e-10 of exp(r) - 1.
EXPM1_COEFFICIENTS = (
    0.5, 0.1666666567325592, 0.04166635870933533, 0.008333389647305012, 0.0013940893113613129, 0.00019845899078063667,
)  # fmt: skip
#: q(r), relative error 3.1e-9 of exp(r).
COEFFICIENTS = (
    0.4999999403953552, 0.1666652113199234, 0.04166827350854874, 0.00836868491023779, 0.001382010872475803,
)  # fmt: skip


def _slope(f: np.ndarray) -> np.ndarray:
    """(2**f - 1) / f."""
    return np.divide(np.exp2(f) - 1, f, out=np.full_like(f, np.log(2)), where=f != 0)


#: 2**f of |f| <= 1/2, which is 1 of 0: 1 + f * s(f) with the polynomial s through the values at Chebyshev points.
EXP2_COEFFICIENTS = (
    1.0, *map(float, Chebyshev.interpolate(_slope, 4, domain=[-0.5, 0.5]).convert(kind=Polynomial).coef)
)  # fmt: skip


def lower_exp2_approx(x: Expr) -> Expr:
    """2**x of float32 lanes up to 127 within 4e-7 of itself: 12 operations. What is no normal number is 0."""
    shifted = x + like(x, ROUNDER)
    p = horner(x - (shifted - like(x, ROUNDER)), EXP2_COEFFICIENTS)
    power = from_bits(bits_of(p) + shift_left(bits_of(shifted), 23))
    return select(x < like(x, -126.0), 0.0, power)


def lower_exp(x: Expr) -> Expr:
    """exp(x) of float32 lanes: 20 operations. exp(-inf) = 0, exp(inf) = inf, NaN stays NaN."""
    p, bits = reduced_exp(clamp(x, -104.0, 89.0))
    half = shift_right(bits, 1)
    scale = power_of_two(half)
    return fma(scale, p, scale) * power_of_two(bits - half)


def reduced_exp(x: Expr, coefficients: Sequence[float] = COEFFICIENTS, rest: Expr | None = None) -> tuple[Expr, Expr]:
    """(p, n): exp(x + rest) = (1 + p) * 2**n, where |x| < 2**21 (or NaN) is known; n in the low bits of an int32."""
    shifted = fma(x, LOG2_E, ROUNDER)
    n = shifted - like(x, ROUNDER)
    r = fma(n, -LN2_HIGH, x)  # exact
    r = fma(n, -LN2_LOW, r) if rest is None else r + fma(n, -LN2_LOW, rest)
    return fma(r * r, horner(r, coefficients), r), bits_of(shifted)


def power_of_two(n: Expr, times: Expr | int = ONE_BITS) -> Expr:
    """2**n of the low bits of int32 lanes; `times` are the bits of another power of two that it is multiplied by."""
    return from_bits(shift_left(n, 23) + (times if isinstance(times, Expr) else like(n, times)))


def lower_expm1(x: Expr) -> Expr:
    """exp(x) - 1 of float32 lanes: expm1(-inf) = -1, expm1(inf) = inf, NaN stays NaN, and a small x stays as it is.

    2**n * (p + 1) - 1 = 2 * (2**(n-1) * p + (2**(n-1) - 1/2)), halved so that no power of two overflows.
    """
    p, n = reduced_exp(clamp(x, -20.0, 89.0), EXPM1_COEFFICIENTS)
    half = power_of_two(n, ONE_BITS - (1 << 23))
    result = fma(half, p, half - like(x, 0.5)) * like(x, 2.0)
    return select(fabs(x) < like(x, TINY), x, result)
