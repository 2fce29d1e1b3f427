"""The gradient of a convolution's kernel: a register tile of filters by taps, whose lanes are neighbouring pixels.

    parallel parts of the filters
      for some images
        for a few channels, for a few filters, for a row of taps
          accumulators = 0
          for image, vector of pixels: accumulators[filters, channels, taps] += gradient[filters] * data[channels, taps]
          kernel[filters, channels, taps] += sums of the accumulators' lanes

Every element is summed by one worker in one order, whatever the number of workers. The images of a turn are as many as
the second-level cache holds with their gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.cpu.schedule.conv2d_cost import line_crossings
from tilewright.backend.cpu.schedule.pad import schedule_pad_at_root
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, extent_of, is_reduction, shape_of
from tilewright.topi.schedule.template import Template

#: Filters and channels of a register tile, at most.
_FILTERS, _CHANNELS = 8, 8

#: Taps of a window whose rows are summed together where each channel has filters of its own.
_WHOLE_WINDOW = 9


@dataclass(frozen=True)
class BackwardWeightWorkload:
    """Filters, channels of a group, taps of a tile (those of a row, or all), and vectors of pixels to sum."""

    filters: int
    channels: int
    taps: int
    vectors: int
    groups: int


def _workload(conv: te.Tensor, out: te.Tensor) -> BackwardWeightWorkload:
    filters, channels, kh, kw = shape_of(conv)
    sums = next(tensor for tensor in conv.op.input_tensors if is_reduction(tensor))
    vectors = math.prod(extent_of(axis) for axis in sums.op.reduce_axis)
    whole = channels == 1 and kh * kw <= _WHOLE_WINDOW
    count = shape_of(sums)[0] * vectors
    return BackwardWeightWorkload(filters, channels, kh * kw if whole else kw, count, conv.op.attrs["groups"])


def _registers(tile_filters: int, tile_channels: int, taps: int) -> int:
    """Accumulators, the gradient's vectors and one of the data."""
    return tile_filters * tile_channels * taps + tile_filters + 1


def _space(workload: BackwardWeightWorkload, target: Target) -> ConfigSpace:
    space = ConfigSpace()
    filters = workload.filters if workload.groups == 1 else 1
    space.define_split("tile_filters", filters, _FILTERS)
    space.define_split("tile_channels", workload.channels, _CHANNELS)
    space.require(
        lambda c: (
            c["tile_filters"] == c["tile_channels"] == 1
            or _registers(c["tile_filters"], c["tile_channels"], workload.taps) <= target.vector_registers
        )
    )
    return space


def _cost(workload: BackwardWeightWorkload, config: Config, target: Target) -> Cost:
    """By multiply-adds, and loads of which those of the data cross lines."""
    machine = target.machine
    filters, channels = config.values()
    products = filters * channels * workload.taps
    crossing = line_crossings(machine.lanes(), machine) if workload.taps > 1 else 1.0
    steps = workload.vectors * workload.filters * workload.channels / (filters * channels)
    return Cost(
        arithmetic=steps * max(products / machine.fma_per_cycle, machine.fma_latency),
        load_ports=steps * (filters + crossing * channels * workload.taps) / machine.vector_loads,
    )


def _schedule(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag conv2d_backward_weight: [O, C, KH, KW]), which may be cast into `out`."""
    sums = next(tensor for tensor in conv.op.input_tensors if is_reduction(tensor))
    for operand in sums.op.input_tensors:
        schedule_pad_at_root(s, operand, target)
    for tensor in computes([out]):
        if tensor.op is out.op and tensor.op is not conv.op:
            s[out].parallel(s[out].op.axis[0])
    workload = _workload(conv, out)
    whole = workload.taps > shape_of(conv)[3]
    filters, channels, row, tap = s[conv].op.axis
    part, lane = s[conv].op.reduce_axis
    groups, filter_ = s[conv].split(filters, factor=config["tile_filters"])
    blocks, channel = s[conv].split(channels, factor=config["tile_channels"])
    workers = min(target.cores, workload.filters // config["tile_filters"])
    shares, groups = s[conv].split(groups, nparts=workers)
    inner = [filter_, channel, row, tap] if whole else [filter_, channel, tap]
    outer = [blocks, groups] if whole else [blocks, groups, row]
    s[conv].reorder(shares, part, *outer, *inner, lane)
    for axis in inner:
        s[conv].unroll(axis)
    s[conv].vectorize(lane)
    if workers > 1:
        s[conv].parallel(shares)

    s[sums].set_scope("local")
    s[sums].compute_at(s[conv], outer[-1])
    _, filter_, channel, row, tap, lane = s[sums].op.axis
    s[sums].reorder(*s[sums].op.reduce_axis, filter_, channel, row, tap, lane)
    for axis in (filter_, channel, row, tap):
        s[sums].unroll(axis)
    s[sums].vectorize(lane)


CONV2D_BACKWARD_WEIGHT = Template("conv2d_backward_weight", _workload, _space, _cost, _schedule)
