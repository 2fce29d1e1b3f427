"""sin, cos and tan of float32, within 2 ulp (tan 1) of every argument.

x = n*pi/2 + r with |r| <= pi/4; then a polynomial of r chosen and signed by n mod 4. Up to 2**20 the argument is
reduced in float64. Beyond, in a branch that vectors take where some lane is so large, by those bits of 2/pi that matter
(Payne and Hanek, Radian Reduction for Trigonometric Functions, 1983).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tilewright.support.dtype import DType
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr
from tilewright.tir.math.common import (
    INFINITY,
    NAN,
    bits_of,
    clamp,
    fabs,
    float32_like,
    float64_like,
    fma,
    horner,
    int32_like,
    like,
    select,
    shift_right,
)

TWO_OVER_PI = 0.6366197723675814
HALF_PI_HIGH = 1.570796326734125614166259765625  # 33 bits: n * HALF_PI_HIGH is exact for |n| < 2**20
HALF_PI_LOW = 6.077100506506192e-11
ROUNDER64 = 6755399441055744.0  # 1.5 * 2**52
SIN_COEFFICIENTS = (1.0, -0.1666666716337204, 0.008333379402756691, -0.0001985307753784582, 2.8328101961960783e-06)
COS_COEFFICIENTS = (1.0, -0.5, 0.04166664555668831, -0.0013887310633435845, 2.443256016704254e-05)
# of float64, within 5e-12 on |r| <= pi/4, for the tangent
SIN_COEFFICIENTS64 = (
    0.999999999995387, -0.16666666629963967, 0.008333328642412546, -0.00019839163874033348, 2.7170188386852064e-06,
)  # fmt: skip
COS_COEFFICIENTS64 = (
    0.9999999999999332, -0.4999999999925871, 0.04166666653181833, -0.0013888879839005946, 2.479882473841944e-05,
    -2.716659777272485e-07,
)  # fmt: skip
LARGEST = 1048576.0  # 2**20
#: 32 zeros, then the bits of 2/pi behind the point, 32 a word.
TWO_OVER_PI_BITS = (
    0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
)  # fmt: skip
QUARTER_OF_2_64 = 1.5707963267948966 * 2.0**-62  # a quarter turn, where a whole one is 2**64


def lower_sin(x: Expr) -> Expr:
    """sin(x) of float32 lanes; NaN for ±inf."""
    return _reduced(x, lambda quadrant, r: _by_quadrant(quadrant, *_sine_and_cosine(r)))


def lower_cos(x: Expr) -> Expr:
    """cos(x) of float32 lanes; NaN for ±inf."""
    return _reduced(x, lambda quadrant, r: _by_quadrant(quadrant + like(quadrant, 1), *_sine_and_cosine(r)))


def lower_tan(x: Expr) -> Expr:
    """tan(x) of float32 lanes; NaN for ±inf."""
    return _reduced(x, _tan)


def _reduced(x: Expr, function: Callable[[Expr, Expr], Expr]) -> Expr:
    """`function` of quadrant and rest of x; the long way to them is gone only where a lane needs it."""
    near = function(*_reduce(x))
    large = fabs(x) > like(x, LARGEST)
    if x.dtype.lanes == 1:
        return op.if_then_else(large, function(*_reduce_large(x)), near)
    both = select(large, function(*_reduce_large(x)), near)
    return op.if_then_else(Call("bool", "any_lane", (large,)), both, near)


def _reduce(x: Expr) -> tuple[Expr, Expr]:
    """(n as int32, r as float64) with x = n*pi/2 + r, |r| <= pi/4."""
    finite = select(fabs(x) < like(x, INFINITY), x, NAN)
    wide = op.cast(float64_like(x), clamp(finite, -LARGEST, LARGEST))
    n = fma(wide, TWO_OVER_PI, ROUNDER64) - like(wide, ROUNDER64)
    r = fma(n, -HALF_PI_LOW, fma(n, -HALF_PI_HIGH, wide))
    number = select(op.eq(n, n), n, 0.0)
    return op.cast(int32_like(x), number), r


def _reduce_large(x: Expr) -> tuple[Expr, Expr]:
    """The same of |x| > 2**20, in fixed point: x is a 24-bit number m times a power of two, which says which bits of
    2/pi make no whole turns and are worth more than 2**-70 of one."""
    bits = bits_of(x)
    position = _bit_and(shift_right(bits, 23), 255) - like(bits, 120)  # of the first bit, in the words
    wide = DType("uint64").with_lanes(x.dtype.lanes)
    shift = op.cast(wide, _bit_and(position, 31))
    words = [_word(shift_right(position, 5), first, wide) for first in range(4)]
    window = [_shifted(_shifted(_word_pair(a, b), shift, "left"), 32, "right") for a, b in pairwise(words)]
    m = op.cast(wide, _bit_and(bits, 0x7FFFFF) + like(bits, 0x800000))
    low = m * window[2]
    middle = m * window[1] + _shifted(low, 32, "right")
    high = m * window[0] + _shifted(middle, 32, "right")
    turn = _word_pair(high, _bit_and(middle, 0xFFFFFFFF))
    quadrant = _shifted(turn + like(turn, 1 << 61), 62, "right")
    rest = op.cast(DType("int64").with_lanes(x.dtype.lanes), turn - _shifted(quadrant, 62, "left"))
    angle = op.cast(float64_like(x), rest) * like(op.cast(float64_like(x), rest), QUARTER_OF_2_64)
    r = select(fabs(x) < like(x, INFINITY), angle, NAN)
    n = op.cast(int32_like(x), quadrant)
    negative = x < like(x, 0.0)
    return select(negative, like(n, 0) - n, n), select(negative, like(r, -0.0) - r, r)


def _word(number: Expr, first: int, dtype: DType) -> Expr:
    """Word `number` + `first` of the table, by comparisons: memory is not read."""
    word = op.const(TWO_OVER_PI_BITS[first], dtype)
    for k in range(1, len(TWO_OVER_PI_BITS) - 3):
        word = select(number >= like(number, k), op.const(TWO_OVER_PI_BITS[first + k], dtype), word)
    return word


def _word_pair(high: Expr, low: Expr) -> Expr:
    return Call(high.dtype, "bitwise_or", (_shifted(high, 32, "left"), low))


def _shifted(x: Expr, positions: Expr | int, side: str) -> Expr:
    return Call(x.dtype, f"shift_{side}", (x, positions if isinstance(positions, Expr) else like(x, positions)))


def _tan(quadrant: Expr, r: Expr) -> Expr:
    square = r * r
    sine, cosine = r * horner(square, SIN_COEFFICIENTS64), horner(square, COS_COEFFICIENTS64)
    odd = op.eq(_bit_and(quadrant, 1), like(quadrant, 1))
    return op.cast(float32_like(r), select(odd, like(r, -0.0) - cosine, sine) / select(odd, sine, cosine))


def _sine_and_cosine(angle: Expr) -> tuple[Expr, Expr]:
    r = op.cast(float32_like(angle), angle)
    # The sine is a product, so that the sign of zero stays.
    return r * horner(r * r, SIN_COEFFICIENTS), horner(r * r, COS_COEFFICIENTS)


def _bit_and(x: Expr, mask: int) -> Expr:
    return Call(x.dtype, "bitwise_and", (x, like(x, mask)))


def _by_quadrant(quadrant: Expr, sine: Expr, cosine: Expr) -> Expr:
    value = select(op.eq(_bit_and(quadrant, 1), like(quadrant, 1)), cosine, sine)
    negative = op.eq(_bit_and(quadrant, 2), like(quadrant, 2))
    return select(negative, like(value, -0.0) - value, value)
