"""Dense convolution on channel-blocked activations: a register tile of output positions by output channel blocks.

The accumulators stay in registers over the whole reduction; the loop nest is

    parallel (batch, band of rows, channel group, row)
      tile of positions
        accumulators = 0
        for input channel block, kernel row, kernel column, input channel in block
          accumulators[positions, channel blocks] += broadcast(data) * weight vector
        epilogue and store

Where rows are short, a tile takes several of them. A band is the whole image where its caches hold it or there are few
channels; otherwise all channels pass by the rows of one band, which the second-level cache holds, before the next. With
`ahead` a worker takes all rows for a channel group, and the weights of the next group come to its cache meanwhile. With
`parts` a worker takes rows of its own (columns, of an image of one row) for all channel groups: those that it wrote for
the kernel before, where that was shared so too, and which no other core has to send.
"""

from __future__ import annotations

from tilewright import te
from tilewright.backend.cpu.schedule.common import BLOCKS_AHEAD, fetch_ahead, parallel_outer, vectorize_lanes
from tilewright.backend.cpu.schedule.conv2d_cost import (
    banded_space,
    direct_cost,
    direct_least,
    transposed_cost,
    transposed_space,
)
from tilewright.backend.cpu.schedule.conv2d_workload import transposed_workload, workload_of
from tilewright.backend.cpu.schedule.pad import schedule_pad_at_root
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import inline_between, operands_of, shape_of, terms_of
from tilewright.topi.schedule.template import Template


def schedule_conv2d(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag conv2d_NCHWc: [N, O/b, H, W, b], summed over channels and kernel) and its epilogue `out`."""
    if len(conv.shape) == 4:
        return _schedule_product(s, conv, out, target, config)
    schedule_pad_at_root(s, conv.op.input_tensors[0], target)
    _, _, height, _, block = shape_of(out)
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    group, inner_block = s[out].split(channel, factor=config["tile_blocks"])
    strips, row = s[out].split(row, factor=config["tile_rows"])
    tiles, column = s[out].split(column, factor=config["tile_columns"])
    outer = [batch, group, strips]
    if config["band_rows"] < height:
        bands, strips = s[out].split(strips, factor=config["band_rows"] // config["tile_rows"])
        outer = [batch, bands, group, strips]
    elif config.get("parts", 1) > 1:
        if height == 1:
            parts, tiles = s[out].split(tiles, nparts=config["parts"])
        else:
            parts, strips = s[out].split(strips, nparts=config["parts"])
        outer = [batch, parts, group, strips]
    joined = _of_one_group(s, out, conv, outer, config)
    s[out].reorder(*outer, *joined, tiles, inner_block, row, column, lane)
    _keep_in_registers(s, out, [*joined, inner_block, row, column], lane, block, target)
    parallel_outer(s, out, outer[:-1] if config.get("ahead") else outer, target, terms_of(conv))

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, column, lane = s[accumulator].op.axis
    # Positions outside channel blocks: each broadcast activation meets all its weight vectors at once, then is dead.
    s[accumulator].reorder(batch, *s[accumulator].op.reduce_axis, row, column, channel, lane)
    if joined:
        s[accumulator].unroll(s[accumulator].op.reduce_axis[0])
    if config.get("ahead"):
        fetch_ahead(s, accumulator, *operands_of(conv))
    _keep_in_registers(s, accumulator, [row, column, channel], lane, block, target)


def _of_one_group(
    s: te.Schedule, out: te.Tensor, conv: te.Tensor, outer: list[te.IterVar], config: Config
) -> list[te.IterVar]:
    """The loop over the tiles' blocks of one of the joined groups, which leaves `outer`'s of all blocks.

    It is unrolled like the pieces of input blocks, so that products with zeros are left out when code is made.
    """
    attrs = conv.op.attrs
    if attrs.get("joined", 1) == 1:
        return []
    position = len(outer) - 2
    blocks = shape_of(out)[1] // attrs["groups"]
    outer[position], tiles = s[out].split(outer[position], factor=blocks // config["tile_blocks"])
    return [tiles]


def _schedule_product(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """The same for one tap: `conv` is [N, O/b, pixels, b], tiles are of neighbouring pixels, of several rows maybe."""
    block = shape_of(out)[-1]
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    group, inner_block = s[out].split(channel, factor=config["tile_blocks"])
    tiles, pixel = s[out].split(s[out].fuse(row, column), factor=config["tile_columns"])
    s[out].reorder(batch, group, tiles, inner_block, pixel, lane)
    _keep_in_registers(s, out, [inner_block, pixel], lane, block, target)
    outer = [batch, group] if config.get("ahead") else [batch, group, tiles]
    work = parallel_outer(s, out, outer, target, terms_of(conv))

    s[accumulator].compute_at(s[out], tiles if tiles in s[out].leaf_iter_vars else work)
    batch, channel, pixel, lane = s[accumulator].op.axis
    s[accumulator].reorder(batch, *s[accumulator].op.reduce_axis, pixel, channel, lane)
    if config.get("ahead"):
        fetch_ahead(s, accumulator, *operands_of(conv))
    _keep_in_registers(s, accumulator, [pixel, channel], lane, block, target)


def schedule_conv2d_transpose(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag conv2d_transpose_NCHWc) and its epilogue: each phase of the strides is a convolution.

    Rows and columns are split by the strides; a register tile is positions of one phase. With `ahead` it prefetches its
    weights some channels early.
    """
    for operand in conv.op.input_tensors:
        schedule_pad_at_root(s, operand, target)
    block = shape_of(out)[-1]
    row_stride, column_stride = conv.op.attrs["strides"]
    accumulator = inline_between(s, conv, out)

    batch, channel, row, column, lane = s[out].op.axis
    group, inner_block = s[out].split(channel, factor=config["tile_blocks"])
    row, row_phase = s[out].split(row, factor=row_stride)
    column, column_phase = s[out].split(column, factor=column_stride)
    bands, row = s[out].split(row, factor=config["tile_rows"])
    tiles, column = s[out].split(column, factor=config["tile_columns"])
    s[out].reorder(batch, group, bands, row_phase, column_phase, tiles, inner_block, row, column, lane)
    _keep_in_registers(s, out, [inner_block, row, column], lane, block, target)
    outer = [batch, group, bands, row_phase] if config["tile_rows"] > 1 else [batch, group, bands]
    parallel_outer(s, out, outer, target, terms_of(conv))

    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, row_phase, column_phase, column, lane = s[accumulator].op.axis
    reduction = s[accumulator].op.reduce_axis
    s[accumulator].reorder(batch, row_phase, column_phase, *reduction, row, column, channel, lane)
    if config.get("ahead"):
        kernel = operands_of(conv)[1]
        s[accumulator].prefetch(kernel, reduction[-1], BLOCKS_AHEAD * shape_of(kernel)[4])
    _keep_in_registers(s, accumulator, [row, column, channel], lane, block, target)


def _keep_in_registers(
    s: te.Schedule, tensor: te.Tensor, unrolled: list[te.IterVar], lane: te.IterVar, block: int, target: Target
) -> None:
    for axis in unrolled:
        s[tensor].unroll(axis)
    vectorize_lanes(s, tensor, lane, block, target)


CONV2D = Template("conv2d_NCHWc", workload_of, banded_space, direct_cost, schedule_conv2d, least=direct_least)

CONV2D_TRANSPOSE = Template(
    "conv2d_transpose_NCHWc", transposed_workload, transposed_space, transposed_cost, schedule_conv2d_transpose
)
