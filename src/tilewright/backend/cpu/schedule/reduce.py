"""Reductions to fewer elements: sums, means, extremes and their positions, and pooling over whole images.

Where the reduction runs along memory, the lanes of a few vectors each reduce their share and are joined at the end.
Where it runs across memory, a tile of neighbouring results is kept in registers while the rows pass by. No sum depends
on the number of workers.
"""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.cpu.schedule.injective import schedule_pass
from tilewright.backend.cpu.schedule.lanes import (
    accumulators,
    lanes_of,
    reduce_across,
    reduce_along,
    runs_along_memory,
)
from tilewright.backend.cpu.schedule.rows import kept_in_rows, schedule_rows
from tilewright.target import Target
from tilewright.te.operation import reduces_by_lanes
from tilewright.topi import tag
from tilewright.topi.schedule.access import element_by_element
from tilewright.topi.schedule.stages import computes, has_tag, is_reduction, shape_of, terms_of

#: Rows of short lines, for each accumulator, from which they are held apart; tiles of columns that are enough to share.
_MANY_ROWS, _ENOUGH_TILES = 8, 8
#: Vectors that a tile of columns keeps at least, to hide the latency of a sum; the part of registers that it may take.
_LEAST_VECTORS, _REGISTERS_PART = 4, 4


def schedule_reduce(s: te.Schedule, outs: list[te.Tensor], target: Target) -> None:
    """Schedule `outs`, of whose stages some reduce."""
    out = outs[0]
    stages = computes(outs)
    partial = [t for t in stages if has_tag(t, tag.PARTIAL)]
    reductions = [t for t in stages if is_reduction(t) and t not in partial]
    ends = {o.op for o in outs}
    for tensor in stages:
        if tensor.op not in ends and not is_reduction(tensor) and not kept_in_rows(tensor):
            s[tensor].compute_inline()
    for tensor in partial:
        schedule_reduced(s, tensor, [tensor], target)
    if len(outs) == 1 and element_by_element(out, reductions):
        for tensor in stages:
            if kept_in_rows(tensor) and tensor.op not in ends:
                s[tensor].compute_inline()
        schedule_reduced(s, out, reductions, target)
    elif len(outs) > 1 or not schedule_rows(s, out, reductions, target):
        _schedule_apart(s, [t for t in stages if t not in partial], ends, target)


def _schedule_apart(s: te.Schedule, stages: list[te.Tensor], ends: set[te.Operation], target: Target) -> None:
    """Each reduction in loops of its own, and each output in one pass."""
    for tensor in stages:
        if is_reduction(tensor):
            schedule_reduced(s, tensor, [tensor], target)
        elif tensor.op in ends or kept_in_rows(tensor):
            schedule_pass(s, tensor, target)


def schedule_reduced(s: te.Schedule, out: te.Tensor, reductions: list[te.Tensor], target: Target) -> None:
    """Schedule `out`, which is one of `reductions` or computed from single elements of them."""
    work = max(_work(t) for t in reductions)
    axes = list(s[out].op.axis)
    if not axes:
        for tensor in reductions:
            reduce_along(s, tensor, target)
        return
    last = reductions[-1]
    along = runs_along_memory(last) or not reduces_by_lanes(last.op)
    if along and last.op is out.op:
        others = reductions[:-1]
        where, width = _parallel(s, out, axes, work, target), 1
        reduce_along(s, out, target)
    else:
        inner = s.cache_write(out, "local") if last.op is out.op else None
        others = [t for t in reductions if t.op is not out.op]
        where, width = (_parallel(s, out, axes, work, target), 1) if along else _tile(s, out, work, target)
        others = others if inner is None else [*others, inner]
    for tensor in others:
        s[tensor].compute_at(s[out], where)
        reduce_along(s, tensor, target) if along else reduce_across(s, tensor, width, target)


def _work(reduction: te.Tensor) -> int:
    return math.prod(shape_of(reduction)) * terms_of(reduction)


def _parallel(s: te.Schedule, out: te.Tensor, axes: list[te.IterVar], work: int, target: Target) -> te.IterVar:
    fused = s[out].fuse(*axes) if len(axes) > 1 else axes[0]
    if work >= target.machine.parallel_elements:
        s[out].parallel(fused)
    return fused


def _tile(s: te.Schedule, out: te.Tensor, work: int, target: Target) -> tuple[te.IterVar, int]:
    """Tiles of neighbouring elements of `out` for the workers: the axis that counts them, and their width."""
    shape, lanes = shape_of(out), lanes_of(out, target)
    *outer, last = s[out].op.axis
    others, width = math.prod(shape[:-1]), shape[-1]
    if width <= lanes and outer:
        s[out].vectorize(last)
        at = max((d for d, size in enumerate(shape[:-1]) if size > 1), default=0)
        count = accumulators(target)
        if others >= _MANY_ROWS * count and shape[at] % count == 0:
            outer[at], position = s[out].split(outer[at], factor=count)
            s[out].reorder(*outer, position, last)
        return _parallel(s, out, outer, work, target), width
    tile = target.vector_registers // _REGISTERS_PART * lanes  # kept in registers while the rows pass by
    while tile > _LEAST_VECTORS * lanes and others * -(-width // tile) < _ENOUGH_TILES:
        tile //= 2
    tile = min(tile, width)
    tiles, inner = s[out].split(last, factor=tile)
    if tile > lanes:
        _, inner = s[out].split(inner, factor=lanes)
    s[out].vectorize(inner)
    return _parallel(s, out, [*outer, tiles], work, target), tile
