"""Operators of several row-wise stages, as softmax and layer normalization: one worker takes whole rows.

A row is what the reductions of one element of the output read. Its summaries are computed just before it is written,
while it is in the cache. Where rows lie across memory, a vector of neighbouring rows is computed at once.
"""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.cpu.schedule.lanes import accumulators, lanes_of, reduce_across, reduce_along
from tilewright.target import Target
from tilewright.topi.schedule.access import reads_through
from tilewright.topi.schedule.stages import computes, extent_of, is_reduction, shape_of

#: With fewer rows than this, reductions of pieces of rows are computed apart, each piece by a worker.
_FEW_ROWS = 8


def kept_in_rows(tensor: te.Tensor) -> bool:
    """True for an injective stage that is dear and read more than once: written once a row, not inlined."""
    return bool(tensor.op.tag == "softmax_exp")


def schedule_rows(s: te.Schedule, out: te.Tensor, reductions: list[te.Tensor], target: Target) -> bool:
    """Schedule the injective `out` and the `reductions` that summarize its rows; False if it has no rows."""
    if is_reduction(out):
        return False
    rows = _row_axes(out, reductions)
    shape, axes = shape_of(out), list(s[out].op.axis)
    count = math.prod(shape[axes.index(iv)] for iv in rows)
    pieces = max(math.prod(shape_of(t)) for t in reductions)
    if not rows or len(rows) == len(axes) or (count < _FEW_ROWS and pieces > count):
        return False
    lanes = lanes_of(out, target)
    across = axes[-1] in rows
    width = min(shape[-1], accumulators(target) * lanes) if across else min(shape[-1], lanes)
    row = _order_loops(s, out, rows, width, target)
    for tensor in computes([out]):
        if tensor in reductions:
            s[tensor].compute_at(s[out], row)
            reduce_across(s, tensor, width, target) if across else reduce_along(s, tensor, target)
        elif kept_in_rows(tensor) and tensor.op is not out.op:
            s[tensor].compute_at(s[out], row)
            _vectorize_pass(s, tensor, width, lanes)
    return True


def _order_loops(s: te.Schedule, out: te.Tensor, rows: list[te.IterVar], width: int, target: Target) -> te.IterVar:
    """The loops of `out`: `rows` outside, in parallel, and vectors inside; returns the axis that counts the rows.

    Where the last axis is one of `rows`, a row is in truth `width` neighbouring rows.
    """
    shape, axes, lanes = shape_of(out), list(s[out].op.axis), lanes_of(out, target)
    inner, last = [iv for iv in axes if iv not in rows], axes[-1]
    if last in rows:
        tiles, last = s[out].split(last, factor=width)
        s[out].reorder(*rows[:-1], tiles, *inner, last)
        rows = [*rows[:-1], tiles]
        if width > lanes:
            vectors, last = s[out].split(last, factor=lanes)
            s[out].unroll(vectors)
    else:
        s[out].reorder(*rows, *inner)
        if width < shape[-1]:
            _, last = s[out].split(last, factor=width)
    s[out].vectorize(last)
    row = s[out].fuse(*rows) if len(rows) > 1 else rows[0]
    if math.prod(shape) >= target.machine.parallel_elements:
        s[out].parallel(row)
    return row


def _vectorize_pass(s: te.Schedule, tensor: te.Tensor, width: int, lanes: int) -> None:
    last = s[tensor].op.axis[-1]
    if width > lanes or shape_of(tensor)[-1] > width:
        _, last = s[tensor].split(last, factor=lanes)
    s[tensor].vectorize(last)


def _row_axes(out: te.Tensor, reductions: list[te.Tensor]) -> list[te.IterVar]:
    """The axes of `out` that are, as they are, indices of every reduction it reads."""
    known = {t.op for t in reductions}
    rows = list(out.op.axis)
    for load in reads_through(out, is_reduction):
        if load.producer.op in known:
            rows = [iv for iv in rows if iv.var in load.indices]
    return [iv for iv in rows if extent_of(iv) > 1]
