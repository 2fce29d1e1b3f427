"""Convolutions and products of bytes: register tiles of a few pixels by a block of channels.

for each row of pixels, for each tile of them
  windows of the tile, as bytes or as pairs, one after the other
  for each block of channels
    sums[pixels, channels] of all products, in registers (`tile_intrin.py`)
    epilogue (bias, scale, rounding) and store

Costs are instructions: those of a step, of its loop, and those that fill windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright import te
from tilewright.backend.board.schedule.tile_intrin import tile_intrin
from tilewright.target import Target
from tilewright.topi import tag
from tilewright.topi.reference.byte_conv import BYTES, PAIRS
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.stages import computes, has_tag, inline_between, shape_of
from tilewright.topi.schedule.template import Template

#: Pixels and channels of a tile, words or bytes of a step of its loop: at most.
_MOST_PIXELS, _MOST_CHANNELS, _MOST_STEPS = 6, 8, 4

#: Registers of a step beside sums, windows and weights: two addresses, and the end of the loop.
_ADDRESSES = 3

#: Instructions: of a loop's addresses and branch; of a tile's call, and of each of its sums, stored and loaded; of what
#: follows a sum; of a byte or word of a window.
_LOOP, _CALL, _SUM, _RESULT = 4.0, 14.0, 2.0, 16.0
_BYTE, _WORD = 3.0, 10.0

#: Instructions that a value which has no register takes in a step.
_SPILLED = 3.0


@dataclass(frozen=True)
class ByteWorkload:
    """`rows` of `pixels` results of `channels` each, of sums of `terms` bytes or words in blocks of `block` channels.

    `form` is that of the weights.
    """

    rows: int
    pixels: int
    channels: int
    block: int
    terms: int
    form: str


def byte_workload(conv: te.Tensor, out: te.Tensor) -> ByteWorkload:
    """The facts of a convolution or product of bytes."""
    n, oh, ow, blocks, block = shape_of(conv)
    _, terms, _ = shape_of(conv.op.input_tensors[1])
    return ByteWorkload(n * oh, ow, blocks * block, block, terms, conv.op.attrs["form"])


def byte_space(workload: ByteWorkload, target: Target) -> ConfigSpace:
    """Pixels of a tile, which divide a row, and the words that a step of the loop takes.

    Of bytes it takes one: compilers would load those of several at once, for which there are too few registers.
    """
    space = ConfigSpace()
    space.define_split("pixels", workload.pixels, _MOST_PIXELS)
    space.define_split("steps", workload.terms, 1 if workload.form == BYTES else _MOST_STEPS)
    return space


def byte_cost(workload: ByteWorkload, config: Config, target: Target) -> Cost:
    """The instructions of all tiles."""
    pixels, block, terms = config["pixels"], workload.block, workload.terms
    step = step_instructions(workload.form, pixels, block, target) + _LOOP / config["steps"]
    tiles = workload.pixels // pixels * workload.rows
    windows = (_BYTE if workload.form == BYTES else _WORD) * pixels * terms
    tile = terms * step + _CALL + pixels * block * (_SUM + _RESULT)
    return Cost(arithmetic=tiles * (windows + workload.channels // block * tile))


def step_instructions(form: str, pixels: int, block: int, target: Target) -> float:
    """The instructions of a step of a tile: loads, products, and values that no register holds."""
    if form == BYTES:
        sums, held = pixels * block, 1 + block
        multiply = 1 if target.architecture == "thumb" and target.cpu != "cortex-m0" else 2
        instructions = pixels + block + multiply * sums
    else:
        sums, held = pixels * block, 2 + 2 * block
        instructions = 2 * pixels + (2 if form == PAIRS else 3) * block + 2 * sums
    return instructions + _SPILLED * max(0, sums + held + _ADDRESSES - target.machine.vector_registers - 2)


def block_of(pixels: int, channels: int, target: Target) -> int:
    """The channels that a kernel computes at once, by the instructions of the best tile for a product of two words."""
    form = PAIRS if target.supports("dsp") else BYTES
    best = [
        (step_instructions(form, p, block, target) / (p * block), block)
        for p in divisors(pixels, _MOST_PIXELS)
        for block in divisors(channels, _MOST_CHANNELS)
    ]
    return min(best)[1]


def schedule_byte_conv(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag byte_conv2d: [N, OH, OW, O/b, b]) and its epilogue `out` ([N, OH, OW, O] or [M, O])."""
    windows = next(t for t in computes([conv]) if has_tag(t, tag.BYTE_WINDOWS))
    facts, (_, terms, block) = conv.op.attrs, shape_of(conv.op.input_tensors[1])
    sums = inline_between(s, conv, out)
    *outer, column, channel = s[out].op.axis
    if facts["flat"] and len(outer) > 1:
        column = s[out].fuse(outer.pop(), column)
    tiles, column = s[out].split(column, factor=config["pixels"])
    blocks, lane = s[out].split(channel, factor=block)
    s[out].reorder(*outer, tiles, blocks, column, lane)
    s[out].unroll(column)
    s[out].unroll(lane)

    s[sums].compute_at(s[out], blocks)
    batch, row, column, block_axis, lane = s[sums].op.axis
    s[sums].reorder(batch, row, block_axis, column, lane, *s[sums].op.reduce_axis)
    s[sums].tensorize(column, tile_intrin(facts["form"], config["pixels"], block, terms, config["steps"]))

    padded_row(s, windows, out, outer)
    s[windows].compute_at(s[out], tiles)
    if terms != facts["row"]:
        s[windows].split(s[windows].op.axis[3], factor=facts["row"])
    if facts["form"] != BYTES:
        s[windows].unroll(s[windows].op.axis[4])


def padded_row(s: te.Schedule, reader: te.Tensor, out: te.Tensor, outer: Sequence[te.IterVar]) -> None:
    """Pad the rows of the image that `reader` reads for a row of `out`, the innermost loop of `outer`, in that loop."""
    for image in computes([reader]):
        if has_tag(image, tag.PAD) and outer:
            s[image].compute_at(s[out], outer[-1])


BYTE_CONV = Template(tag.BYTE_CONV2D, byte_workload, byte_space, byte_cost, schedule_byte_conv)


__all__ = ["BYTE_CONV", "block_of", "padded_row"]
