"""exp of float32, within 2 ulp (1.2 measured), denormal results included, and exp(x) - 1 within 2 ulp (1.4).

x = 2m*ln2 + r with an integer m and |r| <= ln2, so exp(x) = p(r) * 2**m * 2**m: two exact-scale factors that each stay
normal floats, where the single factor 2**(2m) would overflow or lose the denormals. p is a degree 7 minimax polynomial
(relative error 1.5e-8), fitted with its first two coefficients held at 1.
"""

from __future__ import annotations

from tilewright.tir.expr import Expr
from tilewright.tir.math.common import bits_of, clamp, fabs, fma, from_bits, horner, like, select, shift_left

HALF_LOG2_E = 0.7213475204444817
TWO_LN2_HIGH = 1.38629150390625  # few bits, so that m * TWO_LN2_HIGH is exact even without a fused multiply-add
TWO_LN2_LOW = 2.8572136406188345e-06
ROUNDER = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, left in the low bits of the float
ONE_BITS = 0x3F800000
TINY = 2.0**-26  # x**2 / 2 is nothing beside x below
LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.4286068203094172e-06  # as above
EXPM1_COEFFICIENTS = (
    0.5, 0.1666666567325592, 0.04166635870933533, 0.008333389647305012, 0.0013940893113613129, 0.00019845899078063667,
)  # fmt: skip
COEFFICIENTS = (
    1.0, 1.0, 0.5000003576278687, 0.166666179895401, 0.041661228984594345,
    0.008335934951901436, 0.0014104779111221433, 0.00019629760936368257,
)  # fmt: skip


def lower_exp(x: Expr) -> Expr:
    """exp(x) of float32 lanes: 17 operations. exp(-inf) = 0, exp(inf) = inf, NaN stays NaN."""
    return exp_of_clamped(clamp(x, -104.0, 89.0))


def exp_of_clamped(x: Expr) -> Expr:
    """exp(x) where -104 <= x <= 89 (or NaN) is known."""
    root, scale = exp_in_parts(x)
    return root * scale


def exp_in_parts(x: Expr) -> tuple[Expr, Expr]:
    """exp(x) as a product of two normal numbers, where -110 <= x <= 89 (or NaN) is known; the second is 2**m."""
    shifted = fma(x, HALF_LOG2_E, ROUNDER)
    m = shifted - like(x, ROUNDER)
    r = fma(m, -TWO_LN2_HIGH, x)
    r = fma(m, -TWO_LN2_LOW, r)
    bits = shift_left(bits_of(shifted), 23)
    scale = from_bits(bits + like(bits, ONE_BITS))
    return horner(r, COEFFICIENTS) * scale, scale


def lower_expm1(x: Expr) -> Expr:
    """exp(x) - 1 of float32 lanes: expm1(-inf) = -1, expm1(inf) = inf, NaN stays NaN, and a small x stays as it is.

    x = n*ln2 + r with |r| <= ln2/2; then 2**n * (p(r) + 1) - 1 = 2 * (2**(n-1) * p(r) + (2**(n-1) - 1/2)), halved so
    that no power of two overflows. p(r) = r + r**2 * q(r) with a degree 5 minimax q (relative error 2.5e-10).
    """
    limited = clamp(x, -20.0, 89.0)
    shifted = fma(limited, LOG2_E, ROUNDER)
    n = shifted - like(x, ROUNDER)
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, limited))
    p = fma(r * r, horner(r, EXPM1_COEFFICIENTS), r)
    bits = shift_left(bits_of(shifted), 23)
    half = from_bits(bits + like(bits, ONE_BITS - (1 << 23)))
    result = fma(half, p, half - like(x, 0.5)) * like(x, 2.0)
    return select(fabs(x) < like(x, TINY), x, result)
