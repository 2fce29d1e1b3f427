"""The error function of float32 within 2 ulp (1.3 measured), its complement within 1, and Gelu within 7 (6.7).

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
    horner,
    like,
    select,
    undefined_at_minus_infinity,
    upper_half,
    with_sign_of,
)
from tilewright.tir.math.double import exp64, wide
from tilewright.tir.math.exp import LN2_HIGH, LN2_LOW, LOG2_E, ROUNDER, power_of_two, reduced_exp
from tilewright.tir.math.hyperbolic import times_sigmoid

# erf(x) = x + x*P(x**2) within 1.5e-8 of it on |x| <= ERF_SMALL
ERF_SMALL = 0.875
ERF_P = (
    0.12837915122509003, -0.3761250674724579, 0.11281964927911758, -0.02677232399582863, 0.005001951474696398,
    -0.0006037476705387235,
)  # fmt: skip
# log(1 - erf(t)) within 1.8e-9 / erfc(t) up to ERF_ONE, where erf is 1 in float32
ERF_LOG = (
    -0.00014423135144170374, -1.1278892755508423, -0.636820912361145, -0.10424987226724625, 0.022380802780389786,
    -0.0030819152016192675, 0.00019988986605312675,
)  # fmt: skip
ERF_ONE = 3.95


def lower_erf(x: Expr) -> Expr:
    """erf(x) of float32 lanes: 1 - exp(log(erfc(|x|))), and a polynomial near zero. erf(±inf) = ±1, erf(±0) = ±0."""
    t = clamp(fabs(x), None, ERF_ONE)
    p, n = reduced_exp(horner(t, ERF_LOG))
    scale = power_of_two(n)
    large = like(x, 1.0) - fma(scale, p, scale)
    return with_sign_of(select(t < like(x, ERF_SMALL), fma(t, horner(t * t, ERF_P), t), large), x)


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
GELU_TANH_ZERO = -10.8  # the approximation by tanh is 0 below
# 2 sqrt(2/pi), and this times 0.044715: twelve bits each and the rest
GELU_LINEAR, GELU_LINEAR_REST = 1.595703125, 6.599660264328122e-05
GELU_CUBIC, GELU_CUBIC_REST = 0.07135009765625, 4.718616310128709e-06


def lower_erfc(x: Expr) -> Expr:
    """1 - erf(x) of float32 lanes, computed in float64 and rounded at the end: erfc(-inf) = 2, erfc(inf) = 0."""
    t = wide(clamp(fabs(x), None, ERFC_ZERO))
    tail = exp64(like(t, -0.0) - t * t) * horner(t, ERFC_N) / horner(t, ERFC_D)
    return op.cast(float32_like(x), select(x < like(x, 0.0), like(t, 2.0) - tail, tail))


def lower_gelu(x: Expr) -> Expr:
    """x times the normal distribution function of float32 lanes: max(x, 0) - |x| Phi(-|x|), 36 operations.

    exp(-t**2 / 2) is p(s) * 2**m * 2**m with t**2 = s - 4m*ln2. The square of the upper half of t is exact, and so is
    what is left of it when 4m*ln2 is taken away.
    """
    t = clamp(fabs(x), None, TAIL_ZERO)
    shifted = fma(t * t, -LOG2_E / 4, ROUNDER)
    m = shifted - like(x, ROUNDER)
    upper = upper_half(t)
    s = fma(t - upper, t + upper, fma(upper, upper, m * like(x, 4 * LN2_HIGH)))
    s = fma(m, 4 * LN2_LOW, s)
    scale = power_of_two(bits_of(shifted))
    tail = horner(t, TAIL_N) / horner(t, TAIL_D) * t * horner(s, HALF_EXP) * scale
    return undefined_at_minus_infinity(x, fma(tail, scale, Max(like(x, -0.0), x)))


def lower_gelu_tanh(x: Expr) -> Expr:
    """Gelu by tanh of float32 lanes (Hendrycks and Gimpel 2016): x * sigmoid(2 sqrt(2/pi) (x + 0.044715 x**3))."""
    t = clamp(x, GELU_TANH_ZERO, -GELU_TANH_ZERO)
    return undefined_at_minus_infinity(x, times_sigmoid(clamp(x, GELU_TANH_ZERO, None), *_gelu_exponent(t)))


def _gelu_exponent(t: Expr) -> tuple[Expr, Expr]:
    """2 sqrt(2/pi) (t + 0.044715 t**3) as a sum of two float32, exact to 2**-33 of it.

    Factors are split into twelve bits and a rest, so that the products of the former are exact.
    """
    upper = upper_half(t)
    lower = t - upper
    exact = upper * upper
    rest = lower * (t + upper)
    square = exact + rest
    square_upper = upper_half(square)
    rest = rest + (exact - square_upper)
    factor = upper_half(fma(square_upper, GELU_CUBIC, GELU_LINEAR))
    factor_rest = fma(square_upper, GELU_CUBIC, like(t, GELU_LINEAR) - factor)
    factor_rest = fma(square, GELU_CUBIC_REST, fma(rest, GELU_CUBIC, factor_rest)) + like(t, GELU_LINEAR_REST)
    return upper * factor, fma(upper, factor_rest, lower * (factor + factor_rest))
