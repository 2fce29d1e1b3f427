"""Normalization by the statistics of the data itself."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.idioms import reshape, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def normalized(x: Expr, axes: Sequence[int], epsilon: float) -> Expr:
    """`x` less its mean over the axes, divided by sqrt(variance + epsilon)."""
    centred = x - op.mean(x, axis=axes, keepdims=True)
    variance = op.mean(centred * centred, axis=axes, keepdims=True)
    return centred * op.rsqrt(variance + epsilon)


def scaled_over(x: Expr, axes: Sequence[int], scale: Expr | None, shift: Expr | None) -> Expr:
    """`x` times `scale` plus `shift`, tensors of the extents of `axes`; None leaves out."""
    spread = [extent if axis in axes else 1 for axis, extent in enumerate(shape_of(x))]
    made = x if scale is None else x * reshape(scale, spread)
    return made if shift is None else made + reshape(shift, spread)
