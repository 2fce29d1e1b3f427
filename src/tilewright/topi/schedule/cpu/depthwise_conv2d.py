"""Depthwise convolution on channel-blocked activations: each worker takes a band of rows of one channel block.

The padded band is written by the worker itself and stays in its cache; the accumulators of a few columns stay in
registers over the kernel window.
"""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu.common import PARALLEL_GRAIN, inline_between, shape_of
from tilewright.topi.schedule.cpu.pad import schedule_pad_at

#: A padded band of one channel block should stay within half of a level-2 cache.
_BAND_BYTES = 256 * 1024


def schedule_depthwise_conv2d(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `conv` (tag depthwise_conv2d_NCHWc: [N, C/b, H, W, b], reduced over the kernel) and its epilogue."""
    _, _, height, width, block = shape_of(out)
    padded = conv.op.input_tensors[0]
    row_bytes = shape_of(padded)[3] * block * 4 * max(1, shape_of(padded)[2] // max(1, height))
    band = max(1, min(height, _BAND_BYTES // row_bytes, 28))
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    bands, row = s[out].split(row, factor=band)
    columns, position = s[out].split(column, factor=_columns(width))
    s[out].reorder(batch, channel, bands, row, columns, position, lane)
    work = s[out].fuse(batch, channel, bands)
    if height * width * block * shape_of(out)[1] >= PARALLEL_GRAIN:
        s[out].parallel(work)
    s[out].vectorize(lane)
    s[out].unroll(position)
    schedule_pad_at(s, padded, out, work)

    s[accumulator].compute_at(s[out], columns)
    batch, channel, row, column, lane = s[accumulator].op.axis
    kernel_row, kernel_column = s[accumulator].op.reduce_axis
    s[accumulator].reorder(batch, channel, row, kernel_row, kernel_column, column, lane)
    s[accumulator].vectorize(lane)
    s[accumulator].unroll(column)
    s[accumulator].unroll(kernel_column)
    s[accumulator].unroll(kernel_row)


def _columns(width: int) -> int:
    """Columns per register tile: a divisor of the width near 8, else 8."""
    fitting = [c for c in range(4, 15) if width % c == 0]
    return min(fitting, key=lambda c: abs(c - 8)) if fitting else min(width, 8)
