"""Depthwise convolutions of bytes: a few neighbouring pixels of one channel, whose taps share weights and columns.

for each row, for each tile of pixels, for each channel
  sums[pixels] = 0, in registers
  all taps unrolled: a weight and a column of the image are read once for the tile
  epilogue and store
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import te
from tilewright.backend.board.schedule.byte_conv import padded_row
from tilewright.target import Target
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import inline_between, shape_of
from tilewright.topi.schedule.template import Template

#: Pixels of a tile; taps that are unrolled, at most: of a row of the window, of all of it.
_MOST_PIXELS, _MOST_TAPS = 6, 16

#: Instructions: of a loop's addresses and branch, of a result beside its sum.
_LOOP, _RESULT = 8.0, 14.0


@dataclass(frozen=True)
class DepthwiseWorkload:
    """`rows` of `pixels` results of `channels` each; windows of `kernel` taps that move by `stride` columns."""

    rows: int
    pixels: int
    channels: int
    kernel: tuple[int, int]
    stride: int


def depthwise_workload(conv: te.Tensor, out: te.Tensor) -> DepthwiseWorkload:
    """The facts of a depthwise convolution of bytes."""
    n, oh, ow, channels = shape_of(conv)
    kh, kw, *_ = shape_of(conv.op.input_tensors[1])
    return DepthwiseWorkload(n * oh, ow, channels, (kh, kw), conv.op.attrs["strides"][1])


def depthwise_space(workload: DepthwiseWorkload, target: Target) -> ConfigSpace:
    """Pixels of a tile, and 1 where the loops over taps are unrolled, 0 for less code."""
    space = ConfigSpace()
    space.define_knob("pixels", range(1, min(workload.pixels, _MOST_PIXELS) + 1))
    space.define_knob("taps", (1, 0))
    return space


def depthwise_cost(workload: DepthwiseWorkload, config: Config, target: Target) -> Cost:
    """The instructions of all tiles."""
    pixels, (kh, kw) = config["pixels"], workload.kernel
    columns = (pixels - 1) * workload.stride + kw
    multiply = 1 if target.cpu.startswith("cortex") and target.cpu != "cortex-m0" else 2
    taps: float = kh * (kw + min(columns, pixels * kw) + multiply * pixels * kw)
    spilled = max(0, pixels + 6 - target.machine.vector_registers)
    taps += 0 if config["taps"] else kh * kw * _LOOP
    tiles = -(-workload.pixels // pixels) * workload.rows
    return Cost(arithmetic=tiles * workload.channels * (taps * (1 + spilled / pixels) + pixels * _RESULT + _LOOP))


def schedule_byte_depthwise(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag byte_depthwise_conv2d: [N, OH, OW, C]) and its epilogue `out`."""
    sums = inline_between(s, conv, out)
    batch, row, column, channel = s[out].op.axis
    tiles, column = s[out].split(column, factor=config["pixels"])
    s[out].reorder(batch, row, tiles, channel, column)
    s[out].unroll(column)

    padded_row(s, conv, out, [batch, row])
    s[sums].compute_at(s[out], channel)
    batch, row, column, channel = s[sums].op.axis
    part, tap = s[sums].op.reduce_axis
    kh, kw, _ = shape_of(conv.op.input_tensors[1])
    s[sums].reorder(batch, row, channel, part, tap, column)
    s[sums].unroll(column)
    if not config["taps"]:
        return
    if kw <= _MOST_TAPS:
        s[sums].unroll(tap)
    if kh * kw <= _MOST_TAPS:
        s[sums].unroll(part)


BYTE_DEPTHWISE = Template(
    tag.BYTE_DEPTHWISE, depthwise_workload, depthwise_space, depthwise_cost, schedule_byte_depthwise
)
