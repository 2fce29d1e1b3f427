"""Images sampled between their elements: weighted sums of the elements around positions, over any number of axes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.idioms import cast, constant, dtype_of, index_axis, like, rank_of, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

#: The parameter of Keys's cubic kernel.
_CUBIC = -0.75


@dataclass(frozen=True)
class Tap:
    """One element read along an axis: its integral position and its weight, both tensors of the samples' shape."""

    position: Expr
    weight: Expr | None = None


def sampled(data: Expr, centers: Sequence[Expr], mode: str, padding: str, corners: bool) -> Expr:
    """`data` (N, C, …) at the positions `centers` (N, samples …), one tensor for each axis: (N, C, samples …).

    Modes are nearest, linear and cubic; what lies outside is zeros, the border or a reflection, at the outermost
    centres (`corners`) or edges.
    """
    taps = []
    for center, extent in zip(centers, shape_of(data)[2:]):
        if padding != "zeros" and mode != "cubic":
            center = _inside(center, extent, padding, corners)
        taps.append(taps_of(center, mode))
    return weighted_samples(data, taps, padding, corners)


def pixels_of(grid: Expr, extents: Sequence[int], corners: bool) -> list[Expr]:
    """Coordinates (N, samples …, axes), last axis first, as positions along each axis.

    -1 and 1 are the centres of the outermost elements (`corners`), or their outer edges.
    """
    last = rank_of(grid) - 1
    parts = [index_axis(grid, last, len(extents) - 1 - axis) + 1 for axis in range(len(extents))]
    if corners:
        return [part * ((extent - 1) / 2) for part, extent in zip(parts, extents)]
    return [(part * extent - 1) * 0.5 for part, extent in zip(parts, extents)]


def affine_grid(theta: Expr, size: Sequence[Any], corners: bool) -> Expr:
    """A regular grid from -1 to 1 of `size` (N, extents …) under affine maps (N, axes, axes + 1), last axis first."""
    batch, *extents = size
    lines = []
    for extent in extents:
        line = np.linspace(-1, 1, extent) if extent > 1 else np.zeros(1)
        lines.append(line if corners else line * (extent - 1) / extent)
    planes = np.meshgrid(*lines, indexing="ij")[::-1]
    points = np.stack([*planes, np.ones_like(planes[0])], axis=-1).reshape(1, -1, len(extents) + 1)
    wide = idioms.broadcast_to(constant(points, dtype_of(theta)), (batch, *points.shape[1:]))
    return idioms.reshape(op.nn.batch_matmul(wide, theta, transpose_b=True), (batch, *extents, len(extents)))


def _inside(positions: Expr, extent: int, padding: str, corners: bool) -> Expr:
    """Positions beyond the edge moved onto it, or mirrored at it."""
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    if padding == "reflection":
        span = high - low
        if span <= 0:
            return positions * 0
        away = op.abs(positions - low)
        period = like(2 * span, positions)
        part = away - op.floor(away / period) * period
        positions = op.minimum(part, period - part) + low
    return op.clip(positions, a_min=0.0, a_max=float(extent - 1))


def taps_of(center: Expr, mode: str) -> list[Tap]:
    """The elements that a sample at `center` is made of along an axis."""
    if mode == "nearest":
        return [Tap(op.round(center))]
    low = op.floor(center)
    part = center - low
    if mode == "linear":
        return [Tap(low, 1 - part), Tap(low + 1, part)]
    return [Tap(low + offset, _cubic_weight(part, offset)) for offset in (-1, 0, 1, 2)]


def _cubic_weight(part: Expr, offset: int) -> Expr:
    """Keys's kernel at the distance between the position and the element `offset` away."""
    t: Expr = op.abs(part - offset)
    near, far = (_CUBIC + 2, -(_CUBIC + 3), 0, 1), (_CUBIC, -5 * _CUBIC, 8 * _CUBIC, -4 * _CUBIC)
    value: Expr = like(0, t)
    for factor in near if offset in (0, 1) else far:
        value = value * t + factor
    return value


def weighted_samples(data: Expr, taps: Sequence[Sequence[Tap]], padding: str = "zeros", corners: bool = False) -> Expr:
    """The sum over all combinations of the taps of each axis of `data` (N, C, …) there, times their weights."""
    batch, channels, *extents = shape_of(data)
    rows = idioms.channels_last(idioms.reshape(data, (batch, channels, idioms.product(extents))))
    terms = [_term(rows, combination, extents, padding, corners) for combination in itertools.product(*taps)]
    return idioms.channels_first(reduce(op.add, terms))


def _term(rows: Expr, taps: Sequence[Tap], extents: Sequence[int], padding: str, corners: bool) -> Expr:
    """Of `rows` (N, elements, C) those that one combination of taps picks, (N, samples …, C), times its weight."""
    indices, weights, valid = [], [], []
    for tap, extent in zip(taps, extents):
        position = tap.position
        if padding == "zeros":
            valid += [position >= 0, position < extent]
        else:
            position = _inside(position, extent, padding, corners)
        indices.append(op.cast(op.clip(position, a_min=0.0, a_max=float(extent - 1)), dtype="int64"))
        weights += [] if tap.weight is None else [tap.weight]
    index = indices[0]
    for extent, following in zip(extents[1:], indices[1:]):
        index = index * constant(extent, "int64") + following
    picked = op.gather_nd(rows, op.expand_dims(index, axis=0), batch_dims=1)
    last = rank_of(picked) - 1
    if valid:
        picked = op.where(op.expand_dims(reduce(op.logical_and, valid), axis=last), picked, 0)
    if weights:
        picked = picked * cast(op.expand_dims(reduce(op.multiply, weights), axis=last), dtype_of(picked))
    return picked
