"""Reductions, and operators of several row-wise stages (softmax, layer normalization): one worker takes whole rows."""

from __future__ import annotations

import math

from tilewright import te
from tilewright.target import Target
from tilewright.te.operation import producer_loads
from tilewright.te.stage import reduces_by_lanes
from tilewright.tir.op import as_const
from tilewright.topi.schedule.cpu.common import PARALLEL_GRAIN, computes, is_reduction, shape_of, vector_lanes


def schedule_reduce(s: te.Schedule, outs: list[te.Tensor], target: Target) -> None:
    """Schedule stages of which some reduce; every intermediate stage is computed within a row of the output.

    The row is what all reductions have in common with the output: its leading axes.
    """
    out = outs[0]
    stages = computes(outs)
    reductions = [t for t in stages if is_reduction(t)]
    for tensor in stages:
        if tensor.op is not out.op and not is_reduction(tensor):
            s[tensor].compute_inline()
    if is_reduction(out) or len(reductions) == 0:
        _schedule_single(s, out)
        inner = [t for t in reductions if t.op is not out.op]
        for tensor in inner:
            _schedule_single(s, tensor)
        return
    _schedule_rows(s, out, reductions)


def _schedule_single(s: te.Schedule, out: te.Tensor) -> None:
    """One stage that reduces: workers over its axes; vector lanes where the last output axis is long enough."""
    axes = list(s[out].op.axis)
    work = math.prod(shape_of(out)) * math.prod(int(r.dom.extent.value) for r in s[out].op.reduce_axis)
    if not _reduce_by_lanes(s, out) and axes and shape_of(out)[-1] >= 4:
        lanes = vector_lanes(shape_of(out)[-1])
        if lanes < shape_of(out)[-1]:
            outer, inner = s[out].split(axes[-1], factor=lanes)
            axes = [*axes[:-1], outer]
        else:
            inner = axes.pop()
        s[out].reorder(*axes, *s[out].op.reduce_axis, inner)
        s[out].vectorize(inner)
    if axes:
        fused = s[out].fuse(*axes) if len(axes) > 1 else axes[0]
        if work >= PARALLEL_GRAIN:
            s[out].parallel(fused)


def _reduce_by_lanes(s: te.Schedule, tensor: te.Tensor) -> bool:
    """Vectorize the reduction axis that runs along neighbours in memory, if there is one; whether it did."""
    op = s[tensor].op
    axis = _row_axis(op) if isinstance(op, te.ComputeOp) else None
    extent = 0 if axis is None or axis.dom is None else as_const(axis.dom.extent)
    if axis is None or not isinstance(extent, int) or extent < 4:
        return False
    lanes = min(16, 1 << extent.bit_length() - 1)
    others = [r for r in op.reduce_axis if r is not axis]  # type: ignore[attr-defined]
    outer, inner = s[tensor].split(axis, factor=lanes)
    s[tensor].reorder(*others, outer, inner)
    s[tensor].vectorize(inner)
    return True


def _row_axis(op: te.ComputeOp) -> te.IterVar | None:
    """The axis of a sum, product, minimum or maximum that is the last index of something it reads."""
    if reduces_by_lanes(op):
        for load in producer_loads(op.body):
            for axis in op.reduce_axis:
                if load.indices[-1] is axis.var:
                    return axis
    return None


def _schedule_rows(s: te.Schedule, out: te.Tensor, reductions: list[te.Tensor]) -> None:
    """`out` is injective over rows that the reductions summarize: compute them at the innermost common row axis."""
    common = min(_common_axes(t, out) for t in reductions)
    axes = list(s[out].op.axis)
    if common <= 0:
        for tensor in reductions:
            _schedule_single(s, tensor)
        return
    lanes = vector_lanes(shape_of(out)[-1])
    row = s[out].fuse(*axes[:common]) if common > 1 else axes[0]
    if math.prod(shape_of(out)) >= PARALLEL_GRAIN:
        s[out].parallel(row)
    if len(axes) > common:
        last = axes[-1]
        if lanes < shape_of(out)[-1]:
            _, last = s[out].split(last, factor=lanes)
        s[out].vectorize(last)
    for tensor in reductions:
        s[tensor].compute_at(s[out], row)
        _reduce_by_lanes(s, tensor)


def _common_axes(reduction: te.Tensor, out: te.Tensor) -> int:
    """How many leading axes of `out` the reduction is computed for."""
    count = 0
    for a, b in zip(shape_of(reduction), shape_of(out), strict=False):
        if a != b:
            break
        count += 1
    return min(count, len(shape_of(out)) - 1) if count == len(shape_of(out)) else count
