"""Elementwise, broadcasting and data-moving operations: one pass over the output, vectorized, in parallel."""

from __future__ import annotations

import math

from tilewright import te
from tilewright.backend.cpu.schedule.common import line_elements, parallel_outer, vector_lanes
from tilewright.backend.cpu.schedule.pad import schedule_at_root
from tilewright.backend.cpu.schedule.transpose import schedule_transpose
from tilewright.target import Target
from tilewright.topi.schedule.access import flattened_axes, unbroken_lanes
from tilewright.topi.schedule.stages import NARROWEST, computes, has_tag, shape_of

#: A row of fewer lines is joined with the next one where memory allows: vectors would be cut off at each row's end.
_LINES_OF_LONG_ROW = 16
#: With fewer rows than this, workers share the pieces of rows.
_FEW_ROWS = 8


def schedule_injective(s: te.Schedule, outs: list[te.Tensor], target: Target) -> None:
    """Inline everything into `outs` and run each output as one parallel, vectorized pass.

    The interpolated columns of an image that gets more rows are written first: many rows read the same ones.
    """
    for tensor in computes(outs):
        if any(tensor.op is out.op for out in outs):
            continue
        if has_tag(tensor, "resized_columns") and math.prod(shape_of(tensor)) < math.prod(shape_of(outs[0])):
            schedule_at_root(s, tensor, target)
        else:
            s[tensor].compute_inline()
    for out in outs:
        if not (len(outs) == 1 and schedule_transpose(s, out, target)):
            schedule_pass(s, out, target, len(outs) == 1)


def schedule_pass(s: te.Schedule, out: te.Tensor, target: Target, all_inlined: bool = False) -> None:
    """Run the injective stage `out` over its own axes: vector lanes on the last one, workers over the others.

    Where everything it needs is inlined (`all_inlined`), short rows that follow each other in memory are joined.
    """
    axes, shape = list(s[out].op.axis), list(shape_of(out))
    if not axes:
        return
    line = line_elements(target)
    if all_inlined and shape[-1] < _LINES_OF_LONG_ROW * line and shape[-1] % line:
        count = flattened_axes(out)
        if count > 1:
            axes[-count:] = [s[out].fuse(*axes[-count:])]
            shape[-count:] = [math.prod(shape[-count:])]
    extent = shape[-1]
    lanes = vector_lanes(extent, target)
    if all_inlined and lanes > NARROWEST and len(axes) == out.ndim:
        lanes = unbroken_lanes(out, lanes)
    last = axes.pop()
    piece = target.machine.page // 4  # of a long row, for one worker
    if math.prod(shape[:-1]) < _FEW_ROWS and extent > 2 * piece:
        pieces, last = s[out].split(last, factor=piece)
        axes.append(pieces)
    inner = last
    if lanes < extent:
        vectors, inner = s[out].split(last, factor=lanes)
        axes = axes or [vectors]
    if lanes > 1:
        s[out].vectorize(inner)
    if axes:
        parallel_outer(s, out, axes, target)
