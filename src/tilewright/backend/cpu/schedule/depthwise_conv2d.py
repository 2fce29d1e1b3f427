"""Depthwise convolution on channel-blocked activations: each worker takes a band of rows of one channel block.

The accumulators of a few columns stay in registers over the kernel window. Lowering cuts off taps beside the image:
the bands and columns at its rim get versions of their own, all others run without tests. Large windows read a copy of
the band with its borders, in the worker's own cache.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import power_of_two_lanes
from tilewright.backend.cpu.schedule.conv2d_workload import workload_of
from tilewright.backend.cpu.schedule.depthwise_cost import depthwise_cost, depthwise_space
from tilewright.backend.cpu.schedule.pad import is_pad, schedule_pad_at
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import inline_before, inline_between, shape_of, terms_of
from tilewright.topi.schedule.template import Template

#: Columns of a register tile where costs are not compared.
_COLUMNS = 8

#: Windows of more taps than this keep their rows as a loop, which compiles in a fraction of the time.
_UNROLLED_TAPS = 16


def schedule_depthwise_conv2d(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag depthwise_conv2d_NCHWc: [N, C/b, H, W, b], reduced over the kernel) and its epilogue."""
    _, blocks, height, width, block = shape_of(out)
    image = conv.op.input_tensors[0]
    if not is_pad(image):
        inline_before(s, conv)
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    bands, row = s[out].split(row, factor=config["band_rows"])
    columns, position = s[out].split(column, factor=config["tile_columns"])
    lanes, vectors = power_of_two_lanes(block, target), []
    if lanes < block:  # blocks for matrix registers: the sums of a tile are of one vector of channels
        outer, lane = s[out].split(lane, factor=lanes)
        vectors = [outer]
    s[out].reorder(batch, channel, bands, row, *vectors, columns, position, lane)
    work = s[out].fuse(batch, channel, bands)
    if height * width * block * blocks >= target.machine.parallel_elements:
        s[out].parallel(work)
    s[out].vectorize(lane)
    s[out].unroll(position)

    s[accumulator].compute_at(s[out], columns)
    unroll_window(s, accumulator)
    schedule_pad_at(s, image, out, work, target)


def unroll_window(s: te.Schedule, accumulator: te.Tensor) -> None:
    """Keep the accumulators of a tile in registers while the taps of the window pass by."""
    batch, channel, row, column, lane = s[accumulator].op.axis
    kernel_row, kernel_column = s[accumulator].op.reduce_axis
    s[accumulator].reorder(batch, channel, row, kernel_row, kernel_column, column, lane)
    s[accumulator].vectorize(lane)
    s[accumulator].unroll(column)
    s[accumulator].unroll(kernel_column)
    if terms_of(accumulator) <= _UNROLLED_TAPS:
        s[accumulator].unroll(kernel_row)


def columns_of_tile(width: int) -> int:
    """Columns per register tile: a divisor of the width near `_COLUMNS`, else that."""
    fitting = [c for c in range(4, 15) if width % c == 0]
    return min(fitting, key=lambda c: abs(c - _COLUMNS)) if fitting else min(width, _COLUMNS)


DEPTHWISE_CONV2D = Template(
    "depthwise_conv2d_NCHWc", workload_of, depthwise_space, depthwise_cost, schedule_depthwise_conv2d
)
