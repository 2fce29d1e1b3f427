"""Normalization by the statistics of the data itself, or by those of training."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.graph_node import Labelled
from tilewright.frontend.idioms import cast, dtype_of, on_axis, product, rank_of, reshape, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def normalized(x: Expr, axes: Sequence[int], epsilon: float) -> Expr:
    """`x` less its mean over the axes, divided by sqrt(variance + epsilon)."""
    return standardized(x, axes, epsilon)[0]


def standardized(x: Expr, axes: Sequence[int], epsilon: float) -> tuple[Expr, Expr, Expr]:
    """`x` normalized over the axes; the mean; and 1 / sqrt(variance + epsilon)."""
    mean = op.mean(x, axis=axes, keepdims=True)
    centred = x - mean
    scale = op.rsqrt(op.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
    return centred * scale, mean, scale


def scaled_over(x: Expr, axes: Sequence[int], scale: Expr | None, shift: Expr | None) -> Expr:
    """`x` times `scale` plus `shift`, tensors of the extents of `axes`, in its type; None leaves out."""
    spread = [extent if axis in axes else 1 for axis, extent in enumerate(shape_of(x))]
    made = x if scale is None else x * reshape(cast(scale, dtype_of(x)), spread)
    return made if shift is None else made + reshape(cast(shift, dtype_of(x)), spread)


def instance_normalized(x: Expr, scale: Expr | None, shift: Expr | None, epsilon: float) -> Expr:
    """[N, C, …] normalized over each channel of each sample, times a factor plus an addend a channel."""
    return scaled_over(normalized(x, tuple(range(2, rank_of(x))), epsilon), (1,), scale, shift)


def group_normalized(
    node: Labelled, x: Expr, groups: int, epsilon: float, scale: Expr | None, shift: Expr | None
) -> Expr:
    """[N, C, …] normalized over each of `groups` of channels, times a factor plus an addend a channel."""
    batch, channels, *extents = shape_of(x)
    if groups < 1 or channels % groups:
        node.bad(f"{channels} channels do not make {groups} groups")
    split = reshape(x, (batch, groups, product((channels // groups, *extents))))
    return scaled_over(reshape(normalized(split, (2,), epsilon), shape_of(x)), (1,), scale, shift)


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
    return x * on_axis(factor, axis, rank_of(x)) + on_axis(shift, axis, rank_of(x))
