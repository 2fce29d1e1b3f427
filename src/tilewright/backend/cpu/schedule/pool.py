"""Window pooling: a few columns of vector accumulators at a time, the window unrolled, the image's edges cut off.

The computation marks taps beside the image as unlikely, so lowering cuts the loops over columns where windows reach
over the edge and rows at the edge have a version of their own; windows within the image run without tests.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import parallel_outer, vector_lanes
from tilewright.target import Target
from tilewright.topi.schedule.stages import extent_of, inline_before, inline_between, shape_of

#: The share of the registers that accumulators may take, two of three; ports on which sums are added at the same time.
_REGISTERS, _PORTS = (2, 3), 2

#: Windows of more taps than this keep their rows as a loop.
_UNROLLED_TAPS = 16


def schedule_pool(s: te.Schedule, pool: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `pool` (tag pool: reduced over a window) and its epilogue `out`."""
    inline_before(s, pool)
    accumulator = inline_between(s, pool, out)
    *outer, last = s[out].op.axis
    if len(outer) < 4:
        _schedule_along_columns(s, accumulator, out, target)
        return
    batch, channel, row, column = outer
    tiles, position = s[out].split(column, factor=_columns(shape_of(out)[3], shape_of(out)[4], target))
    s[out].unroll(position)
    s[out].vectorize(last)
    parallel_outer(s, out, [batch, channel, row], target)

    s[accumulator].compute_at(s[out], tiles)
    *_, position, lane = s[accumulator].op.axis
    s[accumulator].reorder(*s[accumulator].op.reduce_axis, position, lane)
    _unroll_window(s, accumulator)
    s[accumulator].unroll(position)
    s[accumulator].vectorize(lane)


def _schedule_along_columns(s: te.Schedule, accumulator: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Plain layouts: vector lanes over the last axis (columns of NCHW, channels of NHWC)."""
    *outer, last = s[out].op.axis
    lanes = vector_lanes(shape_of(out)[-1], target)
    tiles, lane = s[out].split(last, factor=lanes)
    s[out].vectorize(lane)
    parallel_outer(s, out, outer, target)
    s[accumulator].compute_at(s[out], tiles)
    lane = s[accumulator].op.axis[-1]
    s[accumulator].reorder(*s[accumulator].op.reduce_axis, lane)
    _unroll_window(s, accumulator)
    s[accumulator].vectorize(lane)


def _columns(width: int, block: int, target: Target) -> int:
    """Columns of one tile: the row if its accumulators fit the registers, else a divisor of `width`.

    About as many as hide the latency of an addition on two ports, and one less rather than one more: widths of images
    are more often multiples of 7 than of 8. A last tile with columns to spare would bring tests into all of them, so an
    awkward width goes column by column.
    """
    registers, most = -(-block // target.machine.lanes()), target.vector_registers * _REGISTERS[0] // _REGISTERS[1]
    if width * registers <= most:
        return width
    hiding = _PORTS * target.machine.fma_latency
    columns = sorted(range(2, hiding + 1), key=lambda c: (abs(c - hiding + 1), -c))
    return next((c for c in columns if width % c == 0 and c * registers <= most), 1)


def _unroll_window(s: te.Schedule, accumulator: te.Tensor) -> None:
    rows, columns = s[accumulator].op.reduce_axis
    taps = [extent_of(rows), extent_of(columns)]
    if taps[1] <= _UNROLLED_TAPS:
        s[accumulator].unroll(columns)
    if taps[0] * taps[1] <= _UNROLLED_TAPS:
        s[accumulator].unroll(rows)
