"""The error function of float32 within 6 ulp (5.0 measured), its complement within 1, and Gelu.

erfc and Gelu vanish far from zero without cancelling: both are exp(-t**2) times a rational function of t = |x|.
"""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Expr, Max
from tilewright.tir.math.common import (
    bits_of,
    clamp,
    fabs,
    float32_like,
    fma,
    from_bits,
    horner,
    like,
    select,
    shift_left,
    undefined_at_minus_infinity,
)
from tilewright.tir.math.double import exp64, wide
from tilewright.tir.math.exp import HALF_LOG2_E, ONE_BITS, ROUNDER, TWO_LN2_HIGH, TWO_LN2_LOW
from tilewright.tir.math.hyperbolic import times_sigmoid

# x*P(x**2)/Q(x**2), minimax on |x| <= 3.93 (relative error 5.4e-8 with the coefficients rounded)
ERF_P = (
    1.1283791065216064, 0.19078384339809418, 0.05279029160737991, 0.0037796113174408674, 0.00028480871696956456,
    2.041971583821578e-06,
)  # fmt: skip
ERF_Q = (
    1.0, 0.502410352230072, 0.1142575815320015, 0.01499743852764368, 0.0011652132961899042, 3.8004087400622666e-05,
)  # fmt: skip
ERF_ONE = 3.93  # erf is 1 in float32 from here on


def lower_erf(x: Expr) -> Expr:
    """erf(x) of float32 lanes as one rational function: 17 operations. erf(±inf) = ±1, erf(±0) = ±0."""
    x = clamp(x, -ERF_ONE, ERF_ONE)
    x2 = x * x
    return clamp(x * horner(x2, ERF_P) / horner(x2, ERF_Q), -1.0, 1.0)


# exp(t**2) erfc(t) = N(t)/D(t) within 6e-9 on 0 <= t <= 10.1, beyond which erfc is 0 in float32
ERFC_N = (
    1.000000005740675, 1.2384298866703567, 0.7316245926606572, 0.22922857814521042, 0.032798582221272805,
)  # fmt: skip
ERFC_D = (
    1.0, 2.366809632632725, 2.4022739273214633, 1.32540678411311, 0.40632347484068176, 0.058133274650485144,
)  # fmt: skip
ERFC_ZERO = 10.1
# -exp(t**2 / 2) erfc(t / sqrt(2)) / 2 = N(t)/D(t) within 6e-9 on 0 <= t <= 14.7, beyond which Gelu is 0 or x
TAIL_N = (
    -0.5000000030298298, -0.4386960436523072, -0.18353273737789647, -0.04073367650958987, -0.004131254097649751,
)  # fmt: skip
TAIL_D = (
    1.0, 1.6752770787656441, 1.2037382937842946, 0.47025637602733045, 0.10211049662659687, 0.010355401919240623,
)  # fmt: skip
TAIL_ZERO = 14.7
# exp(-s/2) within 1.3e-8 on |s| <= 2 ln2
HALF_EXP = (
    1.0, -0.5000000281139929, 0.1250001222787208, -0.020833208466509327, 0.002603770114425118, -0.0002605371912754712,
    2.2060718963010595e-05, -1.5270715060340972e-06,
)  # fmt: skip
GELU_TANH_ZERO = 10.8  # the approximation by tanh is 0 or x beyond
GELU_LINEAR, GELU_CUBIC = 1.5957691216057308, 0.07135481282587159  # 2 sqrt(2/pi), times 0.044715


def lower_erfc(x: Expr) -> Expr:
    """1 - erf(x) of float32 lanes, computed in float64 and rounded at the end: erfc(-inf) = 2, erfc(inf) = 0."""
    t = wide(clamp(fabs(x), None, ERFC_ZERO))
    tail = exp64(like(t, -0.0) - t * t) * horner(t, ERFC_N) / horner(t, ERFC_D)
    return op.cast(float32_like(x), select(x < like(x, 0.0), like(t, 2.0) - tail, tail))


def lower_gelu(x: Expr) -> Expr:
    """x times the normal distribution function of float32 lanes: max(x, 0) - |x| Phi(-|x|), 33 operations.

    exp(-t**2 / 2) is p(s) * 2**m * 2**m with t**2 = s - 4m*ln2. The product is reduced by the fused operation itself;
    where that rounds twice, the relative error grows as t**2 * 2**-25 (to 100 ulp where Gelu is 1e-36).
    """
    t = clamp(fabs(x), None, TAIL_ZERO)
    shifted = fma(t * t, -HALF_LOG2_E / 2, ROUNDER)
    m = shifted - like(x, ROUNDER)
    s = fma(m, 2 * TWO_LN2_LOW, fma(t, t, m * like(x, 2 * TWO_LN2_HIGH)))
    bits = shift_left(bits_of(shifted), 23)
    scale = from_bits(bits + like(bits, ONE_BITS))
    tail = horner(t, TAIL_N) / horner(t, TAIL_D) * t * horner(s, HALF_EXP) * scale
    return undefined_at_minus_infinity(x, fma(tail, scale, Max(like(x, -0.0), x)))


def lower_gelu_tanh(x: Expr) -> Expr:
    """Gelu by tanh of float32 lanes (Hendrycks and Gimpel 2016): x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x**3))."""
    t = clamp(fabs(x), None, GELU_TANH_ZERO)
    y = t * fma(t * t, -GELU_CUBIC, like(x, -GELU_LINEAR))
    return undefined_at_minus_infinity(x, times_sigmoid(x, like(x, -0.0) - t, x < like(x, 0.0), y))
