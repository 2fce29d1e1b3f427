"""Vectorization of one reducing stage: lanes along the reduction, or lanes across neighbouring results."""

from __future__ import annotations

import math

from tilewright import te
from tilewright.target import Target
from tilewright.te.operation import reduces_by_lanes
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.topi.schedule.access import row_axes
from tilewright.topi.schedule.stages import NARROWEST, extent_of


def accumulators(target: Target) -> int:
    """Independent vector accumulators of one reduction, a power of two: they hide the latency of an addition."""
    return 1 << target.machine.fma_latency.bit_length() - 1


def lanes_of(tensor: te.Tensor, target: Target) -> int:
    """Elements of `tensor` in one vector register (those of float32 for narrower types)."""
    return target.machine.lanes(max(32, tensor.dtype.bits))


def runs_along_memory(tensor: te.Tensor) -> bool:
    """True if the reduction that computes `tensor` has an axis along neighbours in memory."""
    return bool(row_axes(tensor))


def reduce_along(s: te.Schedule, tensor: te.Tensor, target: Target) -> None:
    """Let the lanes of a few vectors share the reduction axes that run along memory; scalar code if there are none."""
    run = row_axes(tensor) if reduces_by_lanes(tensor.op) else []
    extent = math.prod(extent_of(axis) for axis in run)
    if extent < NARROWEST:
        return
    others = [r for r in s[tensor].op.reduce_axis if r not in run]
    s[tensor].reorder(*others, *run)
    row = s[tensor].fuse(*run) if len(run) > 1 else run[0]
    lanes = min(accumulators(target) * lanes_of(tensor, target), 1 << extent.bit_length() - 1)
    whole, rest = Analyzer().modular_set(math.prod((a.dom.extent for a in run if a.dom is not None), start=op.const(1)))
    if lanes_of(tensor, target) <= whole < lanes and rest == 0:  # symbolic, but so many at a time leave nothing over
        lanes = whole
    _, inner = s[tensor].split(row, factor=lanes)
    s[tensor].vectorize(inner)


def reduce_across(s: te.Schedule, tensor: te.Tensor, width: int, target: Target) -> None:
    """Keep the results of a tile, `width` of them along the last axis, in registers; the reduction runs outside."""
    if not s[tensor].op.axis:  # one result: there is no tile of neighbours
        reduce_along(s, tensor, target)
        return
    lanes = lanes_of(tensor, target)
    *outer, last = s[tensor].op.axis
    inside: list[te.IterVar] = [last]
    if width > lanes:
        vectors, last = s[tensor].split(last, factor=lanes)
        s[tensor].unroll(vectors)
        inside = [vectors, last]
    s[tensor].reorder(*s[tensor].op.reduce_axis, *outer, *inside)
    for axis in outer:
        s[tensor].unroll(axis)
    s[tensor].vectorize(last)
