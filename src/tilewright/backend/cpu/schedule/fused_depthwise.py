"""A depthwise convolution and the 1x1 convolution that reads it as one kernel, on channel-blocked activations.

    parallel (batch, band of rows)
      depthwise convolution of all channels, for the rows of the band       in the level-1 or -2 cache of the worker
      for each channel group, tile of positions
        1x1 convolution in registers, epilogue and store

The result of the depthwise convolution never reaches the third-level cache, and no barrier lies between the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.common import power_of_two_lanes, vectorize_lanes
from tilewright.backend.cpu.schedule.conv2d_cost import direct_cost
from tilewright.backend.cpu.schedule.conv2d_workload import workload_of
from tilewright.backend.cpu.schedule.depthwise_conv2d import columns_of_tile, unroll_window
from tilewright.backend.cpu.schedule.depthwise_cost import depthwise_cost
from tilewright.backend.cpu.schedule.pad import is_pad, schedule_pad_at
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, has_tag, inline_before, inline_between, shape_of
from tilewright.topi.schedule.template import Template
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Bands that an image must have at least, so that the workers get even shares of them.
MIN_BANDS = 14

#: Rows of a band, at most.
_MOST_ROWS = 4

#: What the depthwise convolution of a band may take of the level-2 cache.
_BAND_SHARE = 0.25

#: Positions of a register tile of the 1x1 convolution and blocks of channels, at most.
_POSITIONS, _BLOCKS = 28, 4


@dataclass(frozen=True)
class DepthwisePair:
    """The facts of a depthwise convolution and of the 1x1 convolution that reads it."""

    depthwise: Conv2DWorkload
    pointwise: Conv2DWorkload


def fuses_depthwise(channels: int, filters: int, height: int, width: int, target: Target | None) -> bool:
    """True if a 1x1 convolution to `filters` computes the depthwise one of such a result within it.

    It passes over all its weights for each band, so a worker's second-level cache must hold these as well.
    """
    if target is not None and 4 * channels * (filters + width) > target.machine.kept_l2 * target.machine.l2.size:
        return False
    return bool(band_rows(channels, height, width, target))


def band_rows(channels: int, height: int, width: int, target: Target | None) -> list[int]:
    """Rows that a band of a float32 image of the depthwise result may have, the most first.

    None where the two had better stay apart. Without a target to judge by, caches are taken to hold any band.
    """
    kept = math.inf if target is None else _BAND_SHARE * target.machine.l2.size
    return [
        rows
        for rows in range(_MOST_ROWS, 0, -1)
        if height % rows == 0 and height // rows >= MIN_BANDS and channels * rows * width * 4 <= kept
    ]


def pair_workload(pointwise: te.Tensor, out: te.Tensor) -> DepthwisePair:
    """The facts of both, from the 1x1 convolution and its epilogue."""
    between = pointwise.op.input_tensors[0]
    return DepthwisePair(workload_of(_depthwise_of(pointwise), between), workload_of(pointwise, out))


def pair_space(workload: DepthwisePair, target: Target) -> ConfigSpace:
    """Rows of a band, the register tile of the 1x1 convolution, columns of that of the depthwise one."""
    after = workload.pointwise
    vectors = after.out_block // power_of_two_lanes(after.out_block, target)
    bands = band_rows(after.in_channels, after.height, after.width, target) or [1]
    space = ConfigSpace()
    space.define_knob("band_rows", bands)
    space.define_split("tile_rows", bands[0], exact=False)
    space.define_split("tile_blocks", after.blocks, _BLOCKS)
    space.define_split("tile_columns", after.width, _POSITIONS, exact=False)
    space.define_knob("depthwise_columns", [columns_of_tile(after.width)])
    space.require(lambda c: c["band_rows"] % c["tile_rows"] == 0)
    space.require(lambda c: c["tile_rows"] == 1 or c["tile_columns"] == after.width)
    space.require(lambda c: tile.fits(c["tile_rows"] * c["tile_columns"], c["tile_blocks"] * vectors, target))
    return space


def pair_cost(workload: DepthwisePair, config: Config, target: Target) -> Cost:
    """Both, one after the other; the image between them is read while it is in a cache of its worker."""
    before, after = workload.depthwise, workload.pointwise
    columns = Config((("band_rows", config["band_rows"]), ("tile_columns", config["depthwise_columns"])))
    band = before.out_bytes * config["band_rows"] / before.height
    return depthwise_cost(before, columns, target).then(direct_cost(after, config, target, 2 * band))


def _depthwise_of(pointwise: te.Tensor) -> te.Tensor:
    """The depthwise convolution that `pointwise` reads."""
    return next(t for t in computes([pointwise]) if has_tag(t, "depthwise_conv2d_NCHWc"))


def schedule_fused_depthwise(
    s: te.Schedule, pointwise: te.Tensor, out: te.Tensor, target: Target, config: Config
) -> None:
    """Schedule the 1x1 convolution `pointwise`, the depthwise one [N, C/b, H, W, b] that it reads, their epilogues."""
    depthwise, between, block = _depthwise_of(pointwise), pointwise.op.input_tensors[0], shape_of(out)[-1]
    if not is_pad(depthwise.op.input_tensors[0]):
        inline_before(s, depthwise)
    accumulator = inline_between(s, pointwise, out)
    work, tiles = _schedule_pointwise(s, out, config, target)
    s[accumulator].compute_at(s[out], tiles)
    batch, channel, row, column, lane = s[accumulator].op.axis
    s[accumulator].reorder(batch, *s[accumulator].op.reduce_axis, row, column, channel, lane)
    for axis in (row, column, channel):
        s[accumulator].unroll(axis)
    vectorize_lanes(s, accumulator, lane, block, target)
    _schedule_depthwise(s, depthwise, between, out, work, config["depthwise_columns"])
    schedule_pad_at(s, depthwise.op.input_tensors[0], between, s[between].op.axis[1], target)


def _schedule_pointwise(
    s: te.Schedule, out: te.Tensor, config: Config, target: Target
) -> tuple[te.IterVar, te.IterVar]:
    """The loops of the result; returns the one over bands and the one over register tiles."""
    block = shape_of(out)[-1]
    batch, channel, row, column, lane = s[out].op.axis
    bands, row = s[out].split(row, factor=config["band_rows"])
    group, inner_block = s[out].split(channel, factor=config["tile_blocks"])
    parts, row = s[out].split(row, factor=config["tile_rows"])
    tiles, column = s[out].split(column, factor=config["tile_columns"])
    s[out].reorder(batch, bands, group, parts, tiles, inner_block, row, column, lane)
    work = s[out].fuse(batch, bands)
    s[out].parallel(work)
    for axis in (inner_block, row, column):
        s[out].unroll(axis)
    vectorize_lanes(s, out, lane, block, target)
    return work, tiles


def _schedule_depthwise(
    s: te.Schedule, depthwise: te.Tensor, between: te.Tensor, out: te.Tensor, work: te.IterVar, tile_columns: int
) -> None:
    """The rows of a band, a few columns of accumulators at a time."""
    if depthwise.op is between.op:
        accumulator = s.cache_write(between, "local")
    else:
        accumulator = depthwise
        s[depthwise].set_scope("local")
        after = computes([between])
        for tensor in after[after.index(depthwise) + 1 : -1]:
            s[tensor].compute_inline()
    s[between].compute_at(s[out], work)
    *_, column, lane = s[between].op.axis
    columns, position = s[between].split(column, factor=tile_columns)
    s[between].unroll(position)
    s[between].vectorize(lane)
    s[accumulator].compute_at(s[between], columns)
    unroll_window(s, accumulator)


DEPTHWISE_PAIR = Template(
    "depthwise_conv2d_NCHWc,conv2d_NCHWc", pair_workload, pair_space, pair_cost, schedule_fused_depthwise
)
