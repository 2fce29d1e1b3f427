"""The error function of float32, within 6 ulp (5.0 measured)."""

from __future__ import annotations

from tilewright.tir.expr import Expr
from tilewright.tir.math.common import clamp, horner

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
