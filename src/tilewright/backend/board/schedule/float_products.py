"""Convolutions and products of floats: register tiles of a few pixels by a block of channels.

for each row of pixels, for each tile of them, for each block of channels
  sums[pixels, channels] of all products, in registers, by a C function (`codegen/source/float_tiles.py`)
  epilogue (bias, activation) and store

Windows are read from the image itself, of which the rows that a row of results reads are padded. Costs are
instructions.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from tilewright import te, tir
from tilewright.backend.board.schedule.byte_conv import padded_row
from tilewright.codegen.source.float_tiles import float_tile_name
from tilewright.target import Target
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.stages import inline_between, operands_of, shape_of
from tilewright.topi.schedule.template import Template

#: Pixels and channels of a tile, terms of a step of its loop: at most.
_MOST_PIXELS, _MOST_CHANNELS, _MOST_STEPS = 6, 16, 4

#: Instructions: of a loop's counter and branch, of a tile's call, of a row of its windows, of what follows a sum.
_LOOP, _CALL, _ROW, _RESULT = 2.0, 30.0, 8.0, 8.0

#: Instructions of a multiply-add without an instruction for it, which a library's functions take.
_SOFT = 80.0

#: Registers of floats; vectors of four of them with Helium; integers of pointers, beside five others.
_FLOATS, VECTORS, LANES, _POINTERS = 32, 8, 4, 6

#: Instructions that a value which has no register takes in a step.
_SPILLED = 3.0


@dataclass(frozen=True)
class FloatWorkload:
    """`rows` of `pixels` results of `channels` each in blocks of `block`: sums of `taps` rows of `terms` products."""

    rows: int
    pixels: int
    channels: int
    block: int
    taps: int
    terms: int


def float_workload(product: te.Tensor, out: te.Tensor) -> FloatWorkload:
    """The facts of a convolution or product of floats."""
    *rows, pixels, blocks, block = shape_of(product)
    _, *window, _ = shape_of(operands_of(product)[1])
    taps, terms = (window[0], window[1] * window[2]) if len(window) > 1 else (1, window[0])
    if _is_tall(product):
        taps, terms = 1, taps * terms
    return FloatWorkload(math.prod(rows), pixels, blocks * block, block, taps, terms)


def _is_tall(product: te.Tensor) -> bool:
    """True for a convolution of an image one column wide."""
    return bool(product.op.attrs.get("tall", False))


def float_space(workload: FloatWorkload, target: Target) -> ConfigSpace:
    """Pixels of a tile, which divide a row, and the terms that a step of the loop takes."""
    space = ConfigSpace()
    space.define_split("pixels", workload.pixels, _MOST_PIXELS)
    space.define_split("steps", workload.terms, _MOST_STEPS)
    return space


def float_cost(workload: FloatWorkload, config: Config, target: Target) -> Cost:
    """The instructions of all tiles."""
    pixels, steps, block = config["pixels"], config["steps"], workload.block
    loop = (_LOOP + 1 + pixels) / steps
    row = workload.terms * (float_step(pixels, block, target) + loop) + _ROW + pixels
    tile = workload.taps * row + _CALL + pixels * block * _RESULT
    tiles = workload.pixels // pixels * workload.rows * (workload.channels // block)
    return Cost(arithmetic=tiles * tile)


def float_step(pixels: int, block: int, target: Target) -> float:
    """The instructions of a term of a tile: loads, multiply-adds, and values that no register holds."""
    if not has_floats(target):
        return pixels + block + (_SOFT + _SPILLED) * pixels * block
    wide = target.supports("mve") and block % LANES == 0
    columns, registers = (block // LANES, VECTORS) if wide else (block, _FLOATS)
    held = pixels * columns + columns + (0 if wide else 1)
    spilled = max(0, held - registers) + max(0, pixels - _POINTERS)
    return columns + pixels + pixels * columns + _SPILLED * spilled


def has_floats(target: Target) -> bool:
    """True for a processor with instructions for floats."""
    return target.supports("fp") or target.supports("f")


def float_block(pixels: int, channels: int, target: Target) -> int:
    """The channels that a kernel computes at once, by the instructions of the best tile for a term."""
    best = [
        (float_step(p, block, target) / (p * block) * (channels + -channels % block) / channels, block)
        for p in divisors(pixels, _MOST_PIXELS)
        for block in range(1, min(channels, _MOST_CHANNELS) + 1)
        if channels % block == 0 or block % LANES == 0
    ]
    return min(best)[1]


@functools.cache
def float_tile(pixels: int, block: int, window: tuple[int, ...], stride: int, steps: int) -> te.TensorIntrin:
    """c[p, l] = the sum of what the windows of `pixels` neighbours and the weights [*window, block] add.

    A window is KH, KW, C, or of one row KW, C, or of a product K; neighbours are `stride` columns apart.
    """
    *rows, columns, depth = (1, *window) if len(window) == 1 else window
    axes = [te.reduce_axis((0, size), "k") for size in (*rows, columns, depth)]
    data = te.placeholder((*rows, (pixels - 1) * stride + columns, depth), "float32", name="data")
    weight = te.placeholder((*rows, columns, depth, block), "float32", name="weight")

    def term(p: tir.Expr, lane: tir.Expr) -> tir.Expr:
        *row, column, k = axes
        return data(*row, p * stride + column if columns > 1 else p * stride, k) * weight(*axes, lane)

    c = te.compute((pixels, block), lambda p, lane: te.sum(term(p, lane), axis=axes), name="tile")
    name = float_tile_name(pixels, block, steps)
    strides = [tir.Var(f"stride{d}", "int32") for d in range(len(axes))]
    image = te.decl_buffer(data.shape, "float32", "data", strides=strides)

    def statement(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        (windows, weights), (sums,) = ins, outs
        pointers = sums.access_ptr("w"), windows.access_ptr("r"), weights.access_ptr("r")
        sizes = math.prod(rows), columns * depth
        moves = [strides[0] if rows and rows[0] > 1 else 0, stride * strides[-2] if pixels > 1 else 0]
        return tir.Evaluate(tir.call_extern("int32", name, *pointers, *sizes, *moves))

    return te.decl_tensor_intrin(c.op, statement, name=name, binds={data: image})


def schedule_float_product(s: te.Schedule, product: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `product` ([N, OH, OW, O/b, b] or [..., O/b, b]) and its epilogue `out` ([N, OH, OW, O] or [..., O])."""
    _, *window, block = shape_of(operands_of(product)[1])
    sums = inline_between(s, product, out)
    *outer, column, channel = s[out].op.axis
    stride = product.op.attrs["strides"][1] if len(window) > 1 else 1
    if _is_tall(product):
        (batch, column, *outer), window = (*outer, column), [window[0], window[2]]
        outer, stride = [batch, *outer], product.op.attrs["strides"][0]
    tiles, column = s[out].split(column, factor=config["pixels"])
    blocks, lane = s[out].split(channel, factor=block)
    s[out].reorder(*outer, tiles, blocks, column, lane)
    s[out].unroll(column)
    s[out].unroll(lane)

    s[sums].compute_at(s[out], blocks)
    *leading, column, block_axis, lane = s[sums].op.axis
    s[sums].reorder(*leading, block_axis, column, lane, *s[sums].op.reduce_axis)
    s[sums].tensorize(column, float_tile(config["pixels"], block, tuple(window), stride, config["steps"]))
    padded_row(s, product, out, outer)


FLOAT_CONV = Template(tag.CONV2D_NHWC_BLOCKS, float_workload, float_space, float_cost, schedule_float_product)
FLOAT_DENSE = Template(tag.DENSE_BLOCKS, float_workload, float_space, float_cost, schedule_float_product)


__all__ = ["FLOAT_CONV", "FLOAT_DENSE", "LANES", "VECTORS", "float_block"]
