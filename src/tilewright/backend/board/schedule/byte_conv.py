"""Convolutions and products of bytes: register tiles of a few pixels by a block of channels.

for each row of pixels, for each tile of them
  words = the windows of the tile as pairs                        (processors that multiply pairs)
  for each block of channels
    sums[pixels, channels] = 0, in registers
    for each word of the window: each weight is read once for the tile
      sums += dot(words[pixel], weights[channel])
    epilogue (bias, scale, rounding) and store

Costs are instructions: those of a step, of its loop, and those that make words.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.board.schedule.dot_intrin import dot_intrin
from tilewright.target import Target
from tilewright.topi import tag
from tilewright.topi.reference.byte_conv import BYTES, PAIRS
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.stages import computes, has_tag, inline_between, shape_of
from tilewright.topi.schedule.template import Template

#: Pixels of a tile, words or bytes of a step of its loop: at most.
_MOST_PIXELS, _MOST_STEPS = 6, 8

#: Registers for addresses, the end of a loop and the product at hand.
_OTHER_REGISTERS = 4

#: Instructions: of a loop's counter, addresses and branch; of a result beside its sum; of a word that becomes pairs.
_LOOP, _RESULT, _WORDS = 4.0, 18.0, 10.0

#: Code that is unrolled grows by steps: terms of a step of all sums, at most.
_MOST_TERMS = 64


@dataclass(frozen=True)
class ByteWorkload:
    """`rows` of `pixels` results of `channels` each, of sums of `parts` times `row` words or bytes in blocks of `block`
    channels. `form` is that of the weights."""

    rows: int
    pixels: int
    channels: int
    block: int
    parts: int
    row: int
    form: str


def byte_workload(conv: te.Tensor, out: te.Tensor) -> ByteWorkload:
    """The facts of a convolution or product of bytes."""
    n, oh, ow, blocks, block = shape_of(conv)
    _, kh, row, _ = shape_of(conv.op.input_tensors[1])
    return ByteWorkload(n * oh, ow, blocks * block, block, kh, row, conv.op.attrs["form"])


def byte_space(workload: ByteWorkload, target: Target) -> ConfigSpace:
    """Pixels of a tile that fit the registers, and how many words or bytes a step of the loop takes."""
    space = ConfigSpace()
    tiles = [
        (pixels, steps)
        for pixels in range(1, min(workload.pixels, _MOST_PIXELS) + 1)
        for steps in range(1, _MOST_STEPS + 1)
        if workload.row % steps == 0 and (steps == 1 or pixels * workload.block * steps <= _MOST_TERMS)
    ]
    space.define_joint(("pixels", "steps"), tiles)
    return space


def byte_cost(workload: ByteWorkload, config: Config, target: Target) -> Cost:
    """The instructions of all tiles."""
    pixels, steps = config["pixels"], config["steps"]
    sums = pixels * workload.block
    if workload.form == BYTES:
        held, term = 1 + min(pixels, 2), pixels + workload.block + sums / target.machine.fma_per_cycle / 2
        term += 0 if target.cpu.startswith("cortex") else sums
    else:
        sides = 2 if workload.form == PAIRS else 3
        held, term = 2 * pixels + 2, pixels + sides * workload.block + 2 * sums
    spilled = max(0, sums + held + _OTHER_REGISTERS - target.machine.vector_registers)
    term += 2 * spilled
    tiles = -(-workload.pixels // pixels) * workload.rows
    blocks = workload.channels // workload.block
    loop = workload.parts * (workload.row * (term + _LOOP / steps) + _LOOP)
    words = 0.0 if workload.form == BYTES else _WORDS * pixels * workload.parts * workload.row
    return Cost(arithmetic=tiles * (words + blocks * (loop + sums * _RESULT + _LOOP)))


def schedule_byte_conv(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag byte_conv2d: [N, OH, OW, O/b, b]) and its epilogue `out` ([N, OH, OW, O] or [M, O])."""
    words = next((t for t in computes([conv]) if has_tag(t, tag.BYTE_WORDS)), None)
    sums = inline_between(s, conv, out)
    *pixels, channel = s[out].op.axis
    column = s[out].fuse(*pixels[1:]) if conv.op.attrs["flat"] and len(pixels) > 1 else pixels[-1]
    outer = pixels[:1] if conv.op.attrs["flat"] and len(pixels) > 1 else pixels[:-1]
    tiles, column = s[out].split(column, factor=config["pixels"])
    blocks, lane = s[out].split(channel, factor=shape_of(conv)[-1])
    s[out].reorder(*outer, tiles, blocks, column, lane)
    s[out].unroll(column)
    s[out].unroll(lane)

    s[sums].compute_at(s[out], blocks)
    batch, row, column, block, lane = s[sums].op.axis
    part, term, *side = s[sums].op.reduce_axis
    term, step = s[sums].split(term, factor=config["steps"])
    s[sums].reorder(batch, row, block, part, term, step, lane, column, *side)
    for axis in (step, lane, column):
        s[sums].unroll(axis)
    if words is None:
        return
    s[sums].tensorize(side[0], dot_intrin(conv.op.attrs["form"]))
    s[words].compute_at(s[out], tiles)
    s[words].unroll(s[words].op.axis[-1])


BYTE_CONV = Template(tag.BYTE_CONV2D, byte_workload, byte_space, byte_cost, schedule_byte_conv)


def block_of(dense: bool, channels: int, target: Target) -> int:
    """The channels that a kernel computes at once: two beside pixels that share weights, as many as fit without."""
    most = (8 if dense else 2) if target.supports("dsp") else 4
    return math.gcd(channels, most) if channels % most else most


__all__ = ["BYTE_CONV", "block_of"]
