"""sin, cos and tan of float32, within 2 ulp (tan 4) for |x| <= 2**20; farther out the argument loses bits.

x = n*pi/2 + r with |r| <= pi/4, reduced in float64; then a polynomial of r chosen and signed by n mod 4.
"""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Call, Expr
from tilewright.tir.math.common import (
    INFINITY,
    NAN,
    clamp,
    fabs,
    float32_like,
    float64_like,
    fma,
    horner,
    int32_like,
    like,
    select,
)

TWO_OVER_PI = 0.6366197723675814
HALF_PI_HIGH = 1.570796326734125614166259765625  # 33 bits: n * HALF_PI_HIGH is exact for |n| < 2**20
HALF_PI_LOW = 6.077100506506192e-11
ROUNDER64 = 6755399441055744.0  # 1.5 * 2**52
SIN_COEFFICIENTS = (1.0, -0.1666666716337204, 0.008333379402756691, -0.0001985307753784582, 2.8328101961960783e-06)
COS_COEFFICIENTS = (1.0, -0.5, 0.04166664555668831, -0.0013887310633435845, 2.443256016704254e-05)
LARGEST = 1073741824.0  # beyond 2**30 a quotient of pi/2 would not fit the int32 quadrant


def lower_sin(x: Expr) -> Expr:
    """sin(x) of float32 lanes; NaN for ±inf."""
    quadrant, r = _reduce(x)
    return _by_quadrant(quadrant, _sin(r), _cos(r))


def lower_cos(x: Expr) -> Expr:
    """cos(x) of float32 lanes; NaN for ±inf."""
    quadrant, r = _reduce(x)
    return _by_quadrant(quadrant + like(quadrant, 1), _sin(r), _cos(r))


def lower_tan(x: Expr) -> Expr:
    """tan(x) of float32 lanes; NaN for ±inf."""
    quadrant, r = _reduce(x)
    sine, cosine = _sin(r), _cos(r)
    odd = op.eq(_bit_and(quadrant, 1), like(quadrant, 1))
    return select(odd, like(x, -0.0) - cosine, sine) / select(odd, sine, cosine)


def _reduce(x: Expr) -> tuple[Expr, Expr]:
    """(n as int32, r as float32) with x = n*pi/2 + r, |r| <= pi/4."""
    finite = select(fabs(x) < like(x, INFINITY), x, NAN)
    wide = op.cast(float64_like(x), clamp(finite, -LARGEST, LARGEST))
    n = fma(wide, TWO_OVER_PI, ROUNDER64) - like(wide, ROUNDER64)
    r = fma(n, -HALF_PI_LOW, fma(n, -HALF_PI_HIGH, wide))
    number = select(op.eq(n, n), n, 0.0)
    return op.cast(int32_like(x), number), op.cast(float32_like(x), r)


def _sin(r: Expr) -> Expr:
    return r * horner(r * r, SIN_COEFFICIENTS)  # a product, so that the sign of zero stays


def _cos(r: Expr) -> Expr:
    return horner(r * r, COS_COEFFICIENTS)


def _bit_and(x: Expr, mask: int) -> Expr:
    return Call(x.dtype, "bitwise_and", (x, like(x, mask)))


def _by_quadrant(quadrant: Expr, sine: Expr, cosine: Expr) -> Expr:
    value = select(op.eq(_bit_and(quadrant, 1), like(quadrant, 1)), cosine, sine)
    negative = op.eq(_bit_and(quadrant, 2), like(quadrant, 2))
    return select(negative, like(value, -0.0) - value, value)
