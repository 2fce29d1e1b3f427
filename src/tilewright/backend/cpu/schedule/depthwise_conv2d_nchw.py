"""Depthwise convolution in the plain layout: a worker takes whole planes, vectors run along their columns.

For a depthwise convolution that stands alone in plain data: blocking its input and unblocking its output would cost as
much as the convolution. The kernel window is unrolled, so neighbouring rows of a tile share what they load.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.conv2d_workload import workload_of
from tilewright.backend.cpu.schedule.depthwise_cost import depthwise_nchw_cost, depthwise_nchw_space
from tilewright.backend.cpu.schedule.pad import schedule_pad_at
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import inline_between, shape_of, terms_of
from tilewright.topi.schedule.template import Template

#: A window of more taps than this is left as loops, to keep the code short.
_UNROLLED_TAPS = 25


def schedule_depthwise_conv2d_nchw(
    s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config
) -> None:
    """Schedule `conv` (tag depthwise_conv2d_nchw: [N, C, H, W], reduced over the window) and its epilogue `out`."""
    batches, channels, height, width = shape_of(out)
    lanes = min(target.machine.lanes(), width)
    rows, vectors = config.values()
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column = s[out].op.axis
    bands, row = s[out].split(row, factor=rows)
    tiles, column = s[out].split(column, factor=lanes * vectors)
    vector, lane = s[out].split(column, factor=lanes)
    s[out].reorder(batch, channel, bands, tiles, row, vector, lane)
    s[out].vectorize(lane)
    for axis in (row, vector):
        s[out].unroll(axis)
    plane = s[out].fuse(batch, channel)
    if batches * channels * height * width >= target.machine.parallel_elements:
        s[out].parallel(plane)
    schedule_pad_at(s, conv.op.input_tensors[0], out, plane, target)

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, column = s[accumulator].op.axis
    taps = s[accumulator].op.reduce_axis
    vector, lane = s[accumulator].split(column, factor=lanes)
    s[accumulator].reorder(batch, channel, *taps, row, vector, lane)
    s[accumulator].vectorize(lane)
    for axis in (*(taps if terms_of(conv) <= _UNROLLED_TAPS else ()), row, vector):
        s[accumulator].unroll(axis)


DEPTHWISE_CONV2D_NCHW = Template(
    "depthwise_conv2d_nchw", workload_of, depthwise_nchw_space, depthwise_nchw_cost, schedule_depthwise_conv2d_nchw
)
