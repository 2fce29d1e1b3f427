"""tanh of float32 within 6 ulp (5.7 measured, 3 near zero) and sigmoid within 4 ulp (2.4 measured).

The others, which no network asks for in its inner loops, are computed in float64 and rounded at the end: within 1 ulp
(0.51 measured).
"""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Expr, Max
from tilewright.tir.math.common import (
    INFINITY,
    NAN,
    clamp,
    fabs,
    float32_like,
    fma,
    horner,
    like,
    select,
    undefined_at_minus_infinity,
    with_sign_of,
)
from tilewright.tir.math.double import exp64, log64, wide
from tilewright.tir.math.exp import exp_in_parts, exp_of_clamped

# x*P(x**2)/Q(x**2), minimax on |x| <= 9.02 (relative error 3e-8 with the coefficients rounded)
TANH_P = (
    1.0, 0.13379718363285065, 0.0034940342884510756, 2.0583476725732908e-05, 1.3319076508366834e-08,
)  # fmt: skip
TANH_Q = (
    1.0, 0.4671303629875183, 0.025871071964502335, 0.00032830925192683935, 7.762017730783555e-07,
)  # fmt: skip
TANH_ONE = 9.02  # tanh is 1 in float32 from here on
# x*P(x**2) within 1e-13 on |x| <= 1 and 3e-12 on |x| <= 1/2
SINH = (
    0.9999999999999271, 0.1666666666720769, 0.008333333269072417, 0.0001984129760875434, 2.7551915952632214e-06,
    2.553495578336363e-08,
)  # fmt: skip
ASINH = (
    0.9999999999977139, -0.16666666547013567, 0.07499989717855804, -0.044639475574672446, 0.03032685102200912,
    -0.02187669513107514, 0.01480035154034962, -0.006536393131238229,
)  # fmt: skip
SILU_ZERO = -110.0  # x e**x is 0 in float32 from here down
ATANH_CUBIC = 2.0**-9  # x + x**3 / 3 is atanh(x) to 3e-12 below


def lower_tanh(x: Expr) -> Expr:
    """tanh(x) of float32 lanes as one rational function: 15 operations. tanh(±inf) = ±1, tanh(±0) = ±0."""
    x = clamp(x, -TANH_ONE, TANH_ONE)
    x2 = x * x
    return clamp(x * horner(x2, TANH_P) / horner(x2, TANH_Q), -1.0, 1.0)


def lower_sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)) of float32 lanes, from exp(-|x|), which cannot overflow: right down to denormal results."""
    z = exp_of_clamped(Max(like(x, -104.0), like(x, -0.0) - fabs(x)))
    return select(x < like(x, 0.0), z, 1.0) / (like(x, 1.0) + z)


def lower_silu(x: Expr) -> Expr:
    """x * sigmoid(x) of float32 lanes, as many operations as the sigmoid and a product."""
    limited = Max(like(x, SILU_ZERO), like(x, -0.0) - fabs(x))
    return undefined_at_minus_infinity(x, times_sigmoid(x, limited, x < like(x, 0.0), limited))


def times_sigmoid(x: Expr, below: Expr, negative: Expr, y: Expr) -> Expr:
    """x * sigmoid(-y), and below * sigmoid(y) where `negative`, of y <= 0: exact where the sigmoid is denormal, as its
    parts meet the other factor one by one."""
    root, scale = exp_in_parts(y)
    return select(negative, below * scale * root, x) / fma(root, scale, 1.0)


def lower_mish(x: Expr) -> Expr:
    """x * tanh(log(1 + e**x)) of float32 lanes: x * n / (n + 2) with n = e**x * (e**x + 2)."""
    limited = clamp(x, SILU_ZERO, 10.0)
    root, scale = exp_in_parts(limited)
    power = root * scale
    more = power + like(x, 2.0)
    below = limited * scale * root * more / fma(power, more, 2.0)
    return undefined_at_minus_infinity(x, select(x > like(x, 10.0), x, below))


def lower_sinh(x: Expr) -> Expr:
    """sinh(x) of float32 lanes, (e**x - e**-x) / 2, and a polynomial where the difference would cancel."""
    size = wide(fabs(x))
    grown, shrunk = _half_exponentials(size)
    near = size * horner(size * size, SINH)
    return with_sign_of(op.cast(float32_like(x), select(size < like(size, 1.0), near, grown - shrunk)), x)


def lower_cosh(x: Expr) -> Expr:
    """cosh(x) of float32 lanes, (e**x + e**-x) / 2."""
    grown, shrunk = _half_exponentials(wide(fabs(x)))
    return op.cast(float32_like(x), grown + shrunk)


def _half_exponentials(size: Expr) -> tuple[Expr, Expr]:
    """e**size / 2 and e**-size / 2; beyond 100, which is infinity in float32, those of 100."""
    grown = exp64(clamp(size, None, 100.0)) * like(size, 0.5)
    return grown, like(size, 0.25) / grown


def lower_asinh(x: Expr) -> Expr:
    """asinh(x) of float32 lanes, log(|x| + sqrt(x**2 + 1)), and a polynomial where the sum is near 1."""
    size = wide(fabs(x))
    square = size * size
    far = log64(size + op.sqrt(square + like(size, 1.0)))
    made = select(size < like(size, 0.5), size * horner(square, ASINH), far)
    return with_sign_of(op.cast(float32_like(x), select(size < like(size, INFINITY), made, size)), x)


def lower_acosh(x: Expr) -> Expr:
    """acosh(x) of float32 lanes, log(x + sqrt((x - 1) (x + 1))): NaN below 1."""
    size = wide(x)
    one = like(size, 1.0)
    made = log64(size + op.sqrt((size - one) * (size + one)))
    made = select(size < like(size, INFINITY), made, size)  # NaN too
    return op.cast(float32_like(x), select(size < one, NAN, made))


def lower_atanh(x: Expr) -> Expr:
    """atanh(x) of float32 lanes, log((1 + |x|) / (1 - |x|)) / 2: ±inf at ±1, NaN beyond."""
    size = wide(fabs(x))
    one = like(size, 1.0)
    far = log64((one + size) / (one - size)) * like(size, 0.5)
    near = size + size * size * size * like(size, 1 / 3)
    made = select(size < like(size, ATANH_CUBIC), near, far)
    made = select(size < one, made, select(op.eq(size, one), like(size, INFINITY), NAN))
    return with_sign_of(op.cast(float32_like(x), made), x)
