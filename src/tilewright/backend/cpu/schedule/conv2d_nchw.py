"""Convolution in the plain layout: vectors run along the columns of the image.

A register tile is a few output channels by a few vectors of columns, of several rows where rows are short; each step
broadcasts a weight for each channel and reads vectors of neighbouring columns.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import parallel_outer
from tilewright.backend.cpu.schedule.conv2d_nchw_cost import (
    conv2d_1x1_nchw_cost,
    conv2d_1x1_nchw_space,
    conv2d_nchw_cost,
    conv2d_nchw_space,
    plain_lanes,
)
from tilewright.backend.cpu.schedule.conv2d_workload import workload_of
from tilewright.backend.cpu.schedule.pad import schedule_pad_at_root
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.space import divisors
from tilewright.topi.schedule.stages import extent_of, inline_between, shape_of, terms_of
from tilewright.topi.schedule.template import Template

#: A row of the window with more multiply-adds than this is left as a loop, to keep the code short.
_UNROLLED_STEPS = 256

#: Taps of a phase in a row that are unrolled at most, so that those which only some phases have are left out there.
_UNROLLED_TAPS = 4


def schedule_conv2d_nchw(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag conv2d_nchw: [N, O, H, W]) and its epilogue `out`.

    The rows that a band of outputs reads stay in the caches while all filters pass by.
    """
    for operand in conv.op.input_tensors:
        schedule_pad_at_root(s, operand, target)
    lanes = plain_lanes(workload_of(conv, out).columns, target)
    filters, rows, vectors = config.values()
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column = s[out].op.axis
    group, filter_ = s[out].split(channel, factor=filters)
    bands, row = s[out].split(row, factor=rows)
    tiles, column = s[out].split(column, factor=lanes * vectors)
    vector, lane = s[out].split(column, factor=lanes)
    s[out].reorder(batch, bands, tiles, group, filter_, row, vector, lane)
    s[out].vectorize(lane)
    for axis in (filter_, row, vector):
        s[out].unroll(axis)
    work = parallel_outer(s, out, [batch, bands, tiles, group], target, terms_of(conv))

    s[accumulator].compute_at(s[out], work)
    batch, channel, row, column = s[accumulator].op.axis
    vector, lane = s[accumulator].split(column, factor=lanes)
    reduction = s[accumulator].op.reduce_axis
    s[accumulator].reorder(batch, *reduction, channel, row, vector, lane)
    steps = filters * rows * vectors * extent_of(reduction[-1])
    for axis in (*(reduction[-1:] if steps <= _UNROLLED_STEPS else ()), channel, row, vector):
        s[accumulator].unroll(axis)
    s[accumulator].vectorize(lane)


def schedule_conv2d_1x1_nchw(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag conv2d_1x1_nchw: [N, O, P]) and its epilogue `out` [N, O, H, W]: vectors of pixels.

    The image is one row of pixels, so that short rows need no vectors of their own. Of pixels and filters, those that
    are more pass by while a tile of the others stays in the caches.
    """
    for operand in conv.op.input_tensors:
        schedule_pad_at_root(s, operand, target)
    _, filters, pixels = shape_of(conv)
    lanes = plain_lanes(pixels, target)
    rows, vectors = config.values()
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column = s[out].op.axis
    pixel = s[out].fuse(row, column)
    group, filter_ = s[out].split(channel, factor=rows)
    tiles, pixel = s[out].split(pixel, factor=lanes * vectors)
    vector, lane = s[out].split(pixel, factor=lanes)
    outer = [batch, tiles, group] if pixels >= filters else [batch, group, tiles]
    s[out].reorder(*outer, filter_, vector, lane)
    for axis in (filter_, vector):
        s[out].unroll(axis)
    s[out].vectorize(lane)
    work = parallel_outer(s, out, outer, target, terms_of(conv))

    s[accumulator].compute_at(s[out], work)
    batch, channel, pixel = s[accumulator].op.axis
    vector, lane = s[accumulator].split(pixel, factor=lanes)
    s[accumulator].reorder(batch, *s[accumulator].op.reduce_axis, channel, vector, lane)
    for axis in (channel, vector):
        s[accumulator].unroll(axis)
    s[accumulator].vectorize(lane)


def schedule_conv2d_transpose_nchw(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target) -> None:
    """Schedule `conv` (tag conv2d_transpose_nchw, [N, O, QH, SH, SW, QW]) and its epilogue `out` [N, O, OH, OW]."""
    for operand in conv.op.input_tensors:
        schedule_pad_at_root(s, operand, target)
    _, channels, _, width = shape_of(out)
    row_stride, column_stride = conv.op.attrs["strides"]
    quotients = -(-width // column_stride)
    lanes = min(target.machine.lanes(), 1 << (quotients - 1).bit_length())
    shared = divisors(channels, 4)[-1] if conv.op.attrs.get("groups", 1) == 1 else 1
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column = s[out].op.axis
    group, filter_ = s[out].split(channel, factor=shared)
    rows, row_phase = s[out].split(row, factor=row_stride)
    columns, column_phase = s[out].split(column, factor=column_stride)
    tiles, lane = s[out].split(columns, factor=lanes)
    s[out].reorder(batch, group, rows, row_phase, tiles, filter_, column_phase, lane)
    s[out].vectorize(lane)
    parallel_outer(s, out, [batch, group, rows], target, terms_of(conv))

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, row_phase, column_phase, column = s[accumulator].op.axis
    reduction = s[accumulator].op.reduce_axis
    s[accumulator].reorder(batch, row, row_phase, *reduction, channel, column_phase, column)
    for axis in (*(reduction[-1:] if extent_of(reduction[-1]) <= _UNROLLED_TAPS else ()), channel, column_phase):
        s[accumulator].unroll(axis)
    s[accumulator].vectorize(column)


CONV2D_NCHW = Template("conv2d_nchw", workload_of, conv2d_nchw_space, conv2d_nchw_cost, schedule_conv2d_nchw)

CONV2D_1X1_NCHW = Template(
    "conv2d_1x1_nchw", workload_of, conv2d_1x1_nchw_space, conv2d_1x1_nchw_cost, schedule_conv2d_1x1_nchw
)
