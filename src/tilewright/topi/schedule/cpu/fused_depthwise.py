"""A depthwise convolution and the 1x1 convolution that reads it as one kernel, on channel-blocked activations.

    parallel (batch, band of rows)
      depthwise convolution of all channels, for the rows of the band       in the level-1 or -2 cache of the worker
      for each channel group, tile of positions
        1x1 convolution in registers, epilogue and store

The result of the depthwise convolution never reaches the third-level cache, and no barrier lies between the two.
"""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import (
    computes,
    has_tag,
    inline_before,
    inline_between,
    shape_of,
    vectorize_lanes,
)
from tilewright.topi.schedule.cpu.depthwise_conv2d import columns_of_tile, unroll_window

#: Bands that an image must give at least, so that the workers get even shares of them.
MIN_BANDS = 14

#: Rows of a band, at most.
_MOST_ROWS = 4

#: What the depthwise convolution of a band may take of the level-2 cache.
_BAND_BYTES = 256 * 1024


def band_rows(channels: int, height: int, width: int) -> int | None:
    """Rows of a band for a float32 image of the depthwise result; None where the two had better stay apart."""
    for rows in range(_MOST_ROWS, 0, -1):
        if height % rows == 0 and height // rows >= MIN_BANDS and channels * rows * width * 4 <= _BAND_BYTES:
            return rows
    return None


def schedule_fused_depthwise(s: te.Schedule, pointwise: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule the 1x1 convolution `pointwise`, the depthwise one [N, C/b, H, W, b] that it reads, their epilogues."""
    depthwise = next(t for t in computes([pointwise]) if has_tag(t, "depthwise_conv2d_NCHWc"))
    between = pointwise.op.input_tensors[0]
    _, _, height, width, block = shape_of(out)
    rows = band_rows(shape_of(between)[1] * shape_of(between)[4], height, width) or 1
    inline_before(s, depthwise)
    accumulator = inline_between(s, pointwise, out)
    work, tiles = _schedule_pointwise(s, out, rows, target)
    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, column, lane = s[accumulator].op.axis
    s[accumulator].reorder(batch, *s[accumulator].op.reduce_axis, row, column, channel, lane)
    for axis in (row, column, channel):
        s[accumulator].unroll(axis)
    vectorize_lanes(s, accumulator, lane, block, target)
    _schedule_depthwise(s, depthwise, between, out, work)


def _schedule_pointwise(s: te.Schedule, out: te.Tensor, rows: int, target: Target) -> tuple[te.IterVar, te.IterVar]:
    """The loops of the result; returns the one over bands and the one over register tiles."""
    _, blocks, _, width, block = shape_of(out)
    chosen = tile.choose_image(rows, width, blocks, block, target)
    batch, channel, row, column, lane = s[out].op.axis
    bands, row = s[out].split(row, factor=rows)
    group, inner_block = s[out].split(channel, factor=chosen.blocks)
    parts, row = s[out].split(row, factor=chosen.rows)
    tiles, column = s[out].split(column, factor=chosen.columns)
    s[out].reorder(batch, bands, group, parts, tiles, inner_block, row, column, lane)
    work = s[out].fuse(batch, bands)
    s[out].parallel(work)
    for axis in (inner_block, row, column):
        s[out].unroll(axis)
    vectorize_lanes(s, out, lane, block, target)
    return work, tiles


def _schedule_depthwise(
    s: te.Schedule, depthwise: te.Tensor, between: te.Tensor, out: te.Tensor, work: te.IterVar
) -> None:
    """The rows of a band, a few columns of accumulators at a time."""
    if depthwise.op is between.op:
        accumulator = s.cache_write(between, "local")
    else:
        accumulator = depthwise
        s[depthwise].set_scope("local")
        for tensor in computes([between]):
            if tensor.op not in (depthwise.op, between.op):
                s[tensor].compute_inline()
    s[between].compute_at(s[out], work)
    *_, column, lane = s[between].op.axis
    columns, position = s[between].split(column, factor=columns_of_tile(shape_of(between)[3]))
    s[between].unroll(position)
    s[between].vectorize(lane)
    s[accumulator].compute_at(s[between], columns)
    unroll_window(s, accumulator)
