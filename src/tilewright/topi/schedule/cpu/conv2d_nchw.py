"""Convolution in the plain layout, for few output channels or groups: vectors run along the columns of the image.

A register tile is a few output channels (or rows, where there is one channel) by a few vectors of columns; each step
broadcasts a weight and reads vectors of neighbouring columns.
"""

from __future__ import annotations

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.common import inline_between, parallel_outer, shape_of, terms_of
from tilewright.topi.schedule.cpu.pad import schedule_pad_at_root

#: Accumulators a tile may keep: half of the register file is left for what is read and broadcast.
_ACCUMULATORS = 12


def schedule_conv2d_nchw(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `conv` (tags conv2d_nchw and depthwise_conv2d_nchw: [N, O, H, W]) and its epilogue `out`."""
    for operand in conv.op.input_tensors:
        schedule_pad_at_root(s, operand)
    _, channels, height, width = shape_of(out)
    lanes = min(target.vector_bits // 32, 1 << (width - 1).bit_length())
    vectors = min(2, -(-width // lanes))
    shared = tile.divisors(channels, 4)[-1] if conv.op.attrs.get("groups", 1) == 1 else 1
    rows = 1 if shared > 1 else max(1, min(height, _ACCUMULATORS // (shared * vectors)))
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column = s[out].op.axis
    group, filter_ = s[out].split(channel, factor=shared)
    bands, row = s[out].split(row, factor=rows)
    tiles, column = s[out].split(column, factor=lanes * vectors)
    vector, lane = s[out].split(column, factor=lanes)
    s[out].reorder(batch, group, bands, tiles, filter_, row, vector, lane)
    s[out].vectorize(lane)
    parallel_outer(s, out, [batch, group, bands], terms_of(conv))

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, column = s[accumulator].op.axis
    vector, lane = s[accumulator].split(column, factor=lanes)
    s[accumulator].reorder(batch, *s[accumulator].op.reduce_axis, channel, row, vector, lane)
    for axis in (channel, row, vector):
        s[accumulator].unroll(axis)
    s[accumulator].vectorize(lane)


def schedule_conv2d_transpose_nchw(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `conv` (tag conv2d_transpose_nchw, [N, O, QH, SH, SW, QW]) and its epilogue `out` [N, O, OH, OW]."""
    for operand in conv.op.input_tensors:
        schedule_pad_at_root(s, operand)
    _, channels, _, width = shape_of(out)
    row_stride, column_stride = conv.op.attrs["strides"]
    quotients = -(-width // column_stride)
    lanes = min(target.vector_bits // 32, 1 << (quotients - 1).bit_length())
    shared = tile.divisors(channels, 4)[-1] if conv.op.attrs.get("groups", 1) == 1 else 1
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column = s[out].op.axis
    group, filter_ = s[out].split(channel, factor=shared)
    rows, row_phase = s[out].split(row, factor=row_stride)
    columns, column_phase = s[out].split(column, factor=column_stride)
    tiles, lane = s[out].split(columns, factor=lanes)
    s[out].reorder(batch, group, rows, row_phase, tiles, filter_, column_phase, lane)
    s[out].vectorize(lane)
    parallel_outer(s, out, [batch, group, rows], terms_of(conv))

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, row_phase, column_phase, column = s[accumulator].op.axis
    reduction = s[accumulator].op.reduce_axis
    s[accumulator].reorder(batch, row, row_phase, *reduction, channel, column_phase, column)
    s[accumulator].unroll(channel)
    s[accumulator].unroll(column_phase)
    s[accumulator].vectorize(column)
