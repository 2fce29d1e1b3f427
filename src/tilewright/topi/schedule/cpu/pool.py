"""Window pooling: vector lanes over the channel block (or the columns in NCHW), padding tested where it is read."""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu.common import inline_before, inline_between, parallel_outer, shape_of, vector_lanes


def schedule_pool(s: te.Schedule, pool: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `pool` (tag pool: reduced over a window) and its epilogue `out`."""
    inline_before(s, pool)
    accumulator = inline_between(s, pool, out)
    axes = list(s[out].op.axis)
    lanes = vector_lanes(shape_of(out)[-1])
    inner = axes[-1]
    if lanes < shape_of(out)[-1]:
        outer, inner = s[out].split(axes[-1], factor=lanes)
        axes[-1:] = [outer, inner]
    s[out].vectorize(inner)
    fused = parallel_outer(s, out, axes[:3])
    s[accumulator].compute_at(s[out], fused if len(axes) == 4 else axes[-2])
    lane = s[accumulator].op.axis[-1]
    s[accumulator].reorder(*s[accumulator].op.reduce_axis, lane)
    s[accumulator].vectorize(lane)
