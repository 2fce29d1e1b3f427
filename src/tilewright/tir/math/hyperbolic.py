"""tanh and sigmoid of float32 within 2 ulp (1.4 and 1.7 measured), Swish as well, Mish within 3 (2.2).

The others, which no network has in its inner loops, are computed in float64 and rounded at the end: within 1 ulp
(0.51 measured).
"""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Expr, Or
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
from tilewright.tir.math.exp import ONE_BITS, power_of_two, reduced_exp

# tanh(x) = x + x**3*P(x**2) within 1.2e-9 of it on |x| <= TANH_SMALL
TANH_SMALL = 0.54931  # tanh is 1/2 there
TANH_P = (
    -0.33333316445350647, 0.133325457572937, -0.05384785681962967, 0.021052539348602295, -0.006246110890060663,
)  # fmt: skip
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
SIGMOID_FAR, MISH_FAR = -16.0, -80.0  # where results are computed times 2**64, as they may be denormal
MISH_NEAR = -0.4
FAR = 64 << 23  # 2**64 in the bits of a float, beside those of 1
ATANH_CUBIC = 2.0**-9  # x + x**3 / 3 is atanh(x) to 3e-12 below


def lower_tanh(x: Expr) -> Expr:
    """tanh(x) of float32 lanes: 1 - 2 / (exp(2|x|) + 1), and a polynomial below 1/2. tanh(±inf) = ±1, tanh(±0) = ±0."""
    t = fabs(x)
    square, one = t * t, like(x, 1.0)
    p, n = reduced_exp(clamp(t + t, None, 20.0))
    scale = power_of_two(n)
    large = one - like(x, 2.0) / fma(scale, p, scale + one)
    return with_sign_of(select(t < like(x, TANH_SMALL), fma(t * square, horner(square, TANH_P), t), large), x)


def lower_sigmoid(x: Expr) -> Expr:
    """1 / (1 + exp(-x)) of float32 lanes, right down to denormal results."""
    return times_sigmoid(None, x)


def lower_silu(x: Expr) -> Expr:
    """x * sigmoid(x) of float32 lanes, as many operations as the sigmoid and a product."""
    return undefined_at_minus_infinity(x, times_sigmoid(clamp(x, SILU_ZERO, None), x))


def times_sigmoid(x: Expr | None, y: Expr, rest: Expr | None = None) -> Expr:
    """x * sigmoid(y + rest), or the sigmoid alone, of an x not below -110.

    exp(-y) + 1 = 2**n * p + (2**n + 1), and the sum in brackets is exact, but where 2**n is large: there 1 is added to
    the product, and dividend and divisor are divided by 2**64, so that nothing but the quotient may be denormal.
    """
    far = y < like(y, SIGMOID_FAR)
    zero = like(y, -0.0)
    p, n = reduced_exp(clamp(zero - y, -40.0, 110.0), rest=None if rest is None else zero - rest)
    scale = power_of_two(n, select(far, like(n, ONE_BITS - FAR), like(n, ONE_BITS)))
    one = select(far, like(y, 2.0**-64), 1.0)
    divisor = fma(scale, p, select(far, one, scale + one)) + select(far, scale, 0.0)
    return (one if x is None else x * one) / divisor


def lower_mish(x: Expr) -> Expr:
    """x * tanh(log(1 + e**x)) of float32 lanes.

    With w = e**x and d = w**2 + 2w + 2 it is x - x * 2/d, and for a small w x*w - x*w * (w**2 + w)/d: what is
    subtracted is small. Sums of powers of two are exact, which leaves the errors of p, with w = (1 + p) * scale.
    """
    two = like(x, 2.0)
    limited = clamp(x, SILU_ZERO, 10.0)
    far, below = x < like(x, MISH_FAR), x < like(x, MISH_NEAR)
    p, n = reduced_exp(limited)
    scale = power_of_two(n, select(far, like(n, ONE_BITS + FAR), like(n, ONE_BITS)))
    part, factor = scale * p, fma(scale, p + two, 2.0)
    divisor = fma(part, factor, fma(scale, scale + two, 2.0))
    dividend = select(below, fma(part, factor - like(x, 1.0), fma(scale, scale, scale)), 2.0)
    scaled = limited * scale
    whole = select(below, fma(scaled, p, scaled), x)
    made = fma(like(x, -0.0) - whole, dividend / divisor, whole) * select(far, like(x, 2.0**-64), 1.0)
    itself = Or(x > like(x, 10.0), op.eq(x, like(x, 0.0)))  # -0 too
    return undefined_at_minus_infinity(x, select(itself, x, made))


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
