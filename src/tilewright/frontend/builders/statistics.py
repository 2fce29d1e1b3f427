"""Batch normalization by the statistics of training."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.idioms import rank_of, reshape, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def batch_normalized(x: Expr, statistics: Sequence[Expr | None], epsilon: float, axis: int = 1) -> Expr:
    """`x` with mean 0 and variance 1 along `axis`, times a factor plus an addend.

    `statistics` are vectors: mean, variance, factors and addends; None leaves the last two out.
    """
    mean, variance, gamma, beta = statistics
    assert mean is not None and variance is not None
    factor: Expr = op.rsqrt(variance + epsilon)
    if gamma is not None:
        factor = factor * gamma
    shift = -(mean * factor) if beta is None else beta - mean * factor
    spread = [shape_of(x)[axis] if position == axis else 1 for position in range(rank_of(x))]
    return x * reshape(factor, spread) + reshape(shift, spread)
