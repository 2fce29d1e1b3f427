"""Depthwise convolutions of floats: a few neighbouring pixels of some channels, whose taps share weights and columns.

for each row, for each tile of pixels, for each block of channels
  sums[pixels, channels], by a C function (`codegen/source/float_tiles.py`), a channel or a vector of them at a time
  epilogue and store
"""

from __future__ import annotations

import functools

from tilewright import te, tir
from tilewright.backend.board.schedule.byte_conv import padded_row
from tilewright.backend.board.schedule.byte_depthwise import DepthwiseWorkload, depthwise_workload
from tilewright.backend.board.schedule.float_products import LANES, VECTORS
from tilewright.codegen.source.float_tiles import float_depthwise_name
from tilewright.target import Target
from tilewright.topi import tag
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace, divisors
from tilewright.topi.schedule.stages import inline_between, shape_of
from tilewright.topi.schedule.template import Template

#: Pixels and channels of a tile, at most.
_MOST_PIXELS, _MOST_CHANNELS = 6, 16

#: Instructions: of a tile's call, of a channel's loop and of a row of its window, of a load with its address, of what
#: follows a sum; of a value that has no register.
_CALL, _LOOP, _ROW, _LOAD, _RESULT, _SPILLED = 30.0, 6.0, 4.0, 2.0, 8.0, 3.0


def depthwise_space(workload: DepthwiseWorkload, target: Target) -> ConfigSpace:
    """Pixels of a tile, which divide a row, and its channels."""
    space = ConfigSpace()
    space.define_split("pixels", workload.pixels, _MOST_PIXELS)
    space.define_knob("channels", divisors(workload.channels, _MOST_CHANNELS))
    return space


def depthwise_cost(workload: DepthwiseWorkload, config: Config, target: Target) -> Cost:
    """The instructions of all tiles."""
    pixels, channels, (kh, kw) = config["pixels"], config["channels"], workload.kernel
    columns = (pixels - 1) * workload.stride + kw
    wide = target.supports("mve")
    spilled = max(0, pixels + kw + 1 - VECTORS) if wide else 0
    row = _ROW + _LOAD * (kw + columns) + pixels * kw + _SPILLED * kw * spilled
    sums = kh * row + _LOOP + pixels
    groups = channels // LANES + channels % LANES if wide else channels
    tiles = workload.pixels // pixels * workload.rows * (workload.channels // channels)
    return Cost(arithmetic=tiles * (_CALL + groups * sums + pixels * channels * _RESULT))


@functools.cache
def depthwise_tile(pixels: int, channels: int, kernel: tuple[int, int], stride: int) -> te.TensorIntrin:
    """c[p, f] = the sums of `pixels` neighbouring windows of `channels` channels, `stride` columns apart."""
    kh, kw = kernel
    data = te.placeholder((kh, (pixels - 1) * stride + kw, channels), "float32", name="data")
    weight = te.placeholder((kh, kw, channels), "float32", name="weight")
    ry, rx = te.reduce_axis((0, kh), "kh"), te.reduce_axis((0, kw), "kw")

    def term(p: tir.Expr, f: tir.Expr) -> tir.Expr:
        return data(ry, p * stride + rx if kw > 1 else p * stride, f) * weight(ry, rx, f)

    c = te.compute((pixels, channels), lambda p, f: te.sum(term(p, f), axis=[ry, rx]), name="tile")
    name = float_depthwise_name(pixels, kernel, stride)
    binds = {tensor: _strided(tensor) for tensor in (data, weight)}

    def statement(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        (windows, weights), (sums,) = ins, outs
        pointers = sums.access_ptr("w"), windows.access_ptr("r"), weights.access_ptr("r")
        assert windows.strides is not None
        return tir.Evaluate(tir.call_extern("int32", name, *pointers, *windows.strides[:2], channels))

    return te.decl_tensor_intrin(c.op, statement, name=name, binds=binds)


def _strided(tensor: te.Tensor) -> tir.Buffer:
    """A buffer for a piece of a larger tensor."""
    strides = [tir.Var(f"stride{d}", "int32") for d in range(tensor.ndim)]
    return te.decl_buffer(tensor.shape, "float32", tensor.name, strides=strides)


def schedule_float_depthwise(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag depthwise_conv2d_nhwc: [N, OH, OW, C]) and its epilogue `out`."""
    kh, kw, *_ = shape_of(conv.op.input_tensors[1])
    sums = inline_between(s, conv, out)
    batch, row, column, channel = s[out].op.axis
    tiles, column = s[out].split(column, factor=config["pixels"])
    blocks, channel = s[out].split(channel, factor=config["channels"])
    s[out].reorder(batch, row, tiles, blocks, channel, column)
    s[out].unroll(column)

    s[sums].compute_at(s[out], blocks)
    *leading, column, channel = s[sums].op.axis
    s[sums].reorder(*leading, column, channel, *s[sums].op.reduce_axis)
    stride = conv.op.attrs["strides"][1]
    s[sums].tensorize(column, depthwise_tile(config["pixels"], config["channels"], (kh, kw), stride))
    padded_row(s, conv, out, [batch, row])


FLOAT_DEPTHWISE = Template(
    tag.DEPTHWISE_NHWC, depthwise_workload, depthwise_space, depthwise_cost, schedule_float_depthwise
)


__all__ = ["FLOAT_DEPTHWISE"]
