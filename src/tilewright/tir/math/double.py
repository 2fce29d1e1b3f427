"""Building blocks in float64 for functions of float32: exponential, logarithm and arc tangent to 1e-10.

What is computed of a float32 by these and rounded at the end is within 0.51 ulp of the exact result.
"""

from __future__ import annotations

from tilewright.support.dtype import DType
from tilewright.tir import op
from tilewright.tir.expr import Expr
from tilewright.tir.math.common import (
    float64_like,
    fma,
    horner,
    int32_like,
    like,
    select,
    shift_left,
    shift_right,
)

LOG2_E, LN2 = 1.4426950408889634, 0.6931471805599453
ROUNDER64 = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to an integer, left in the low bits
ONE_BITS64, TWO_THIRDS_BITS64 = 0x3FF0000000000000, 0x3FE5555555555555
TAN_PI_8, QUARTER, HALF_PI = 0.41421356237309503, 0.7853981633974483, 1.5707963267948966

EXP_COEFFICIENTS = (
    1.0, 1.000000000247769, 0.5000000106026466, 0.1666666510393886, 0.04166622123146699, 0.008333563279893135,
    0.001394846503707487, 0.00019774849960633244,
)  # fmt: skip
#: log(1 + f) = f * (c[0] + c[1] f + …) for 2/3 <= 1 + f < 4/3.
LOG_COEFFICIENTS = (
    0.9999999999019425, -0.4999999994306702, 0.33333339629419756, -0.2500001446884112, 0.1999934720474213,
    -0.16665625017999464, 0.14310316804674583, -0.12531830693143867, 0.10697080980223228, -0.0953428435927709,
    0.12204892216458404, -0.11493251109746061,
)  # fmt: skip
#: atan(t) = t * (c[0] + c[1] t**2 + …) for |t| <= tan(pi / 8).
ATAN_COEFFICIENTS = (
    0.9999999999992689, -0.3333333327810476, 0.199999931523611, -0.1428538965903945, 0.11103503135334883,
    -0.0899290279534135, 0.0697549332282731, -0.03767361115356984,
)  # fmt: skip


def wide(x: Expr) -> Expr:
    """`x` as float64."""
    return op.cast(float64_like(x), x)


def exp64(x: Expr) -> Expr:
    """exp(x) of a float64 |x| <= 700, or NaN: 2**n * p(r) with |r| <= ln2/2."""
    shifted = fma(x, LOG2_E, ROUNDER64)
    r = fma(shifted - like(x, ROUNDER64), -LN2, x)
    bits = shift_left(op.reinterpret(_uint64_like(x), shifted), 52)
    scale = op.reinterpret(x.dtype, bits + like(bits, ONE_BITS64))
    return horner(r, EXP_COEFFICIENTS) * scale


def log64(x: Expr) -> Expr:
    """log(x) of a positive normal float64; anything elsewhere."""
    bits = op.reinterpret(_uint64_like(x), x)
    exponent = shift_right(bits + like(bits, ONE_BITS64 - TWO_THIRDS_BITS64), 52)
    m = op.reinterpret(x.dtype, bits - shift_left(exponent, 52) + like(bits, ONE_BITS64))
    e = op.cast(x.dtype, op.cast(int32_like(x), exponent)) - like(x, 1023.0)
    f = m - like(x, 1.0)
    return fma(e, LN2, f * horner(f, LOG_COEFFICIENTS))


def atan64(x: Expr) -> Expr:
    """atan(x) of a float64 x >= 0, infinity too: pi/2 - atan(1/x) or pi/4 + atan((x - 1) / (x + 1)) of larger ones."""
    one = like(x, 1.0)
    large, middle = x > like(x, 1 / TAN_PI_8), x > like(x, TAN_PI_8)
    above = select(large, -1.0, select(middle, x - one, x))
    below = select(large, x, select(middle, x + one, one))
    t = above / below
    start = select(large, like(x, HALF_PI), select(middle, like(x, QUARTER), 0.0))
    return fma(t, horner(t * t, ATAN_COEFFICIENTS), start)


def _uint64_like(x: Expr) -> DType:
    return DType("uint64").with_lanes(x.dtype.lanes)
