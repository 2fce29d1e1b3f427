"""Winograd convolution on channel-blocked activations: matrix products for a group of tiles, between two transforms.

The transformed input V is computed for the whole image first (`shared`), or for each group of tiles by its worker:

    parallel (batch, channel block, row of tiles)          parallel (batch, group of tiles)
      V = B^T d B of the tiles of the row                    V = B^T d B of the tiles of the group
    parallel (batch, channel group, group of tiles)          for each channel group
      M = V U                                                  M = V U
      epilogue of A^T M A, un-tiled                            epilogue of A^T M A, un-tiled

M = V U is one matrix product per point: rows are tiles, accumulated in registers over all input channels. With `ahead`
the weights of the next point are brought to the level-2 cache meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import te
from tilewright.backend.cpu.schedule.common import fetch_ahead, parallel_outer, vectorize_lanes
from tilewright.backend.cpu.schedule.conv2d_workload import winograd_workload
from tilewright.backend.cpu.schedule.dot_product import accumulate_dots
from tilewright.backend.cpu.schedule.pad import schedule_pad_at
from tilewright.backend.cpu.schedule.winograd_cost import winograd_cost, winograd_least, winograd_space
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.stages import computes, shape_of, terms_of
from tilewright.topi.schedule.template import Template


@dataclass(frozen=True)
class _Stages:
    """The stages of the computation, in order; see `topi.nn.conv2d_winograd_NCHWc`."""

    padded: te.Tensor
    input_rows: te.Tensor
    input_tile: te.Tensor
    product: te.Tensor
    output_rows: te.Tensor

    @staticmethod
    def of(conv: te.Tensor) -> _Stages:
        (output_rows,) = conv.op.input_tensors
        (product,) = output_rows.op.input_tensors
        input_tile = product.op.input_tensors[0]
        (input_rows,) = input_tile.op.input_tensors
        (padded,) = input_rows.op.input_tensors
        return _Stages(padded, input_rows, input_tile, product, output_rows)


def schedule_conv2d_winograd(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag conv2d_winograd_NCHWc: [N, O/b, OH, OW, b]) and its epilogue `out`."""
    stages = _Stages.of(conv)
    block = shape_of(stages.product)[-1]
    _inline_epilogue(s, conv, out)
    work, group, tile_loop = _schedule_output(s, conv, out, config, terms_of(stages.product), target)
    _compute_tile_at(s, stages.output_rows, out, tile_loop, block, target)
    accumulator = s.cache_write(stages.product, "local")
    s[stages.product].compute_at(s[out], group)
    _schedule_product(s, stages.product, accumulator, config, target)
    _schedule_input(s, stages, out, work, config, target)


def _inline_epilogue(s: te.Schedule, conv: te.Tensor, out: te.Tensor) -> None:
    """Inline the last stage of the convolution, and all between it and `out`."""
    after = computes([out])
    position = next(i for i, tensor in enumerate(after) if tensor.op is conv.op)
    for tensor in after[position:]:
        if tensor.op is not out.op:
            s[tensor].compute_inline()


def _schedule_output(
    s: te.Schedule, conv: te.Tensor, out: te.Tensor, config: Config, terms: int, target: Target
) -> tuple[te.IterVar, te.IterVar, te.IterVar]:
    """The loops of the result: the parallel one, that over groups of tiles and channels, and that over tiles."""
    height, width = conv.op.attrs["tile_size"]
    batch, channel, row, column, lane = s[out].op.axis
    channels, channel = s[out].split(channel, factor=config["tile_blocks"])
    row_groups, row = s[out].split(row, factor=config["group_rows"] * height)
    column_groups, column = s[out].split(column, factor=config["group_columns"] * width)
    tile_row, row = s[out].split(row, factor=height)
    tile_column, column = s[out].split(column, factor=width)
    within = (channel, tile_row, tile_column, row, column, lane)
    groups = [batch, channels, row_groups, column_groups]
    if not config["shared"]:
        groups = [batch, row_groups, column_groups, channels]
    s[out].reorder(*groups, *within)
    s[out].unroll(row)
    s[out].unroll(column)
    vectorize_lanes(s, out, lane, shape_of(out)[-1], target)
    work = parallel_outer(s, out, groups if config["shared"] else groups[:3], target, terms)
    return work, work if config["shared"] else channels, tile_column


def _schedule_product(
    s: te.Schedule, product: te.Tensor, accumulator: te.Tensor, config: Config, target: Target
) -> None:
    """One register tile after another, of one point after another; within one, the reduction is outermost.

    Of integers a step is a dot product of pairs.
    """
    block = shape_of(product)[-1]
    batch, channel, i, j, row, column, lane = s[product].op.axis
    row_tiles, row = s[product].split(row, factor=config["tile_rows"])
    column_tiles, column = s[product].split(column, factor=config["tile_columns"])
    s[product].reorder(batch, i, j, row_tiles, column_tiles, row, column, channel, lane)
    for axis in (row, column, channel):
        s[product].unroll(axis)
    vectorize_lanes(s, product, lane, block, target)

    s[accumulator].compute_at(s[product], column_tiles)
    batch, channel, i, j, row, column, lane = s[accumulator].op.axis
    if product.dtype == "int32":
        accumulate_dots(s, accumulator, [batch, i, j], [row, column, channel], lane, block, target)
        return
    s[accumulator].reorder(batch, i, j, *s[accumulator].op.reduce_axis, row, column, channel, lane)
    if config.get("ahead"):
        fetch_ahead(s, accumulator, *product.op.input_tensors)
    for axis in (row, column, channel):
        s[accumulator].unroll(axis)
    vectorize_lanes(s, accumulator, lane, block, target)


def _schedule_input(
    s: te.Schedule, stages: _Stages, out: te.Tensor, work: te.IterVar, config: Config, target: Target
) -> None:
    """The transformed input: a parallel loop of its own, or computed by each worker for its group at `work`."""
    tiles = stages.input_tile
    batch, channel, row, i, j, column, lane = s[tiles].op.axis
    s[tiles].reorder(batch, channel, row, column, i, j, lane)
    s[tiles].unroll(i)
    s[tiles].unroll(j)
    block = shape_of(tiles)[-1]
    vectorize_lanes(s, tiles, lane, block, target)
    pad_loop = channel
    if config["shared"]:
        pad_loop = parallel_outer(s, tiles, [batch, channel, row], target)
    else:
        s[tiles].compute_at(s[out], work)
    schedule_pad_at(s, stages.padded, tiles, pad_loop, target)
    _compute_tile_at(s, stages.input_rows, tiles, column, block, target)


def _compute_tile_at(
    s: te.Schedule, stage: te.Tensor, reader: te.Tensor, loop: te.IterVar, block: int, target: Target
) -> None:
    """The first of two one-dimensional transforms, for one tile in registers."""
    s[stage].compute_at(s[reader], loop)
    s[stage].set_scope("local")
    *_, i, j, lane = s[stage].op.axis
    s[stage].unroll(i)
    s[stage].unroll(j)
    vectorize_lanes(s, stage, lane, block, target)


CONV2D_WINOGRAD = Template(
    "conv2d_winograd_NCHWc",
    winograd_workload,
    winograd_space,
    winograd_cost,
    schedule_conv2d_winograd,
    least=winograd_least,
)
