"""Shared parts of the CPU templates: vector lanes, the grain of parallel work, prefetching."""

from __future__ import annotations

import math

from tilewright import te
from tilewright.target import Target
from tilewright.tir import IntImm
from tilewright.topi.schedule.stages import NARROWEST, extent_of, shape_of


def vector_lanes(extent: int, target: Target) -> int:
    """Lanes for an axis of `extent` that is passed over: the axis itself if short, else a line of cache or half of one.

    Half a line where only that divides `extent`; a whole vector where it is longer than a line.
    """
    limit = line_elements(target)
    if extent <= limit:
        return extent
    for lanes in (limit, limit // 2):
        if lanes > 1 and extent % lanes == 0:
            return lanes
    return limit


def vectorize_lanes(
    s: te.Schedule, tensor: te.Tensor, axis: te.IterVar, extent: int, target: Target
) -> list[te.IterVar]:
    """Make `axis` of `extent` iterations whole vectors: one vectorized axis, after an unrolled one if it takes several.

    Vectors have a power of two lanes, as LLVM keeps no others in registers from one iteration to the next. Returns the
    axes that `axis` became, outermost first.
    """
    lanes = power_of_two_lanes(extent, target)
    if lanes == extent:
        s[tensor].vectorize(axis)
        return [axis]
    outer, inner = s[tensor].split(axis, factor=lanes)
    s[tensor].unroll(outer)
    s[tensor].vectorize(inner)
    return [outer, inner]


def line_elements(target: Target) -> int:
    """Elements of float32 in a line of cache, or in a vector where that is longer."""
    return max(target.machine.line // 4, target.machine.lanes())


def power_of_two_lanes(extent: int, target: Target) -> int:
    """The largest power of two that divides `extent` and fits a vector register of float32."""
    return math.gcd(extent, max(NARROWEST, target.machine.lanes()))


#: Iterations that are enough to share out.
_ENOUGH_SHARES = 16


def _apart_from_symbolic(tensor: te.Tensor, axes: list[te.IterVar]) -> list[te.IterVar]:
    """`axes` without an innermost one of symbolic extent, where there is enough to share out without it.

    To find one's position in fused axes takes a division by each symbolic extent, which costs as much as a vector or
    two."""
    *outer, last = axes
    own = [axis for axis in outer if axis in tensor.op.axis]
    fixed = isinstance(last.dom.extent, IntImm) if last.dom is not None else isinstance(tensor.shape[-1], IntImm)
    return axes if fixed or math.prod(map(extent_of, own)) < _ENOUGH_SHARES else outer


def parallel_outer(
    s: te.Schedule, tensor: te.Tensor, axes: list[te.IterVar], target: Target, terms: int = 0
) -> te.IterVar:
    """Fuse `axes` (outermost, in order) into one parallel loop if the work is worth it; returns the innermost loop.

    `terms` is what each element of `tensor` combines in a reduction within the loop: eight multiply-adds in registers
    cost about as much as one element loaded and stored.
    """
    outer = _apart_from_symbolic(tensor, axes)
    fused = s[tensor].fuse(*outer) if len(outer) > 1 else outer[0]
    if math.prod(shape_of(tensor)) * (1 + terms // 8) >= target.machine.parallel_elements:
        s[tensor].parallel(fused)
    return fused if len(outer) == len(axes) else axes[-1]


#: Blocks of input channels from the one in use to that which is fetched.
BLOCKS_AHEAD = 2


def fetch_ahead(s: te.Schedule, accumulator: te.Tensor, data: te.Tensor, weight: te.Tensor) -> None:
    """Ask for what a register tile reads next while it sums over blocks of channels.

    Of `weight` that is what the loop around all tiles moves on to, evenly over them, and of blocked `data` the tile's
    part of a later block of channels: pieces too short and too far apart for a prefetcher to follow.
    """
    blocks = s[accumulator].op.reduce_axis[0]
    s[accumulator].prefetch(weight, blocks, spread=True)
    if len(data.shape) > 4:
        s[accumulator].prefetch(data, blocks, BLOCKS_AHEAD)
