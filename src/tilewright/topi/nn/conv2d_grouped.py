"""Grouped convolution in blocked layouts: each block of output channels reads the input channels of its group.

Where small groups were joined into one, its weights between channels of different ones are zeros, and a block of output
channels reads only the inputs of the groups that it has channels of:

    groups of 24, joined in pairs, blocks of 16     inputs of    first group   second
        output channels 0 to 15                                       x
                        16 to 31                                      x           x
                        32 to 47                                                  x
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import finish, output_size, sum_dtype, workload
from tilewright.topi.nn.pad import pad
from tilewright.topi.util import extents


def grouped_conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    out_dtype: str = "",
    joined: int = 1,
) -> Tensor:
    """`data` [N, C/ib, H, W, ib], `kernel` [O/ob, C/groups/ib, KH, KW, ib, ob] to [N, O/ob, OH, OW, ob].

    Blocks must not reach over the border between two groups: ib divides C/groups, ob divides O/groups. Stages: data_pad
    (if there is padding), grouped_conv2d_NCHWc with the reduction axes ic_outer, kh, kw, ic_inner. Of groups that were
    `joined` from several, ic_outer are the pieces of input blocks that belong to one of these, and products with zeros
    are left out.
    """
    n, _, h, w, ib = extents(data)
    oco, ico, kh, kw, _, ob = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    wide = sum_dtype(data, out_dtype)
    padded = pad(data, (0, 0, padding[0], padding[1], 0), (0, 0, padding[2], padding[3], 0))
    piece = ib if joined == 1 else math.gcd(ib, ico * ib // joined)
    of_block = ib // piece
    outer, inner = te.reduce_axis((0, ico * of_block), name="ic_outer"), te.reduce_axis((0, piece), name="ic_inner")
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")
    blocks = oco // groups

    def body(b: Any, oc: Any, y: Any, x: Any, block: Any) -> Any:
        row, column = y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1]
        channels, channel = outer // of_block, outer % of_block * piece + inner
        value = padded(b, oc // blocks * ico + channels, row, column, channel)
        weight = kernel(oc, channels, ry, rx, channel, block)
        where = None
        if joined > 1:
            first, last = parts_of_block(oc % blocks, ob, blocks * ob // joined)
            part = outer // (ico * of_block // joined)
            where = tir.all(part >= first, part <= last)
        return te.sum(value.astype(wide) * weight.astype(wide), axis=[outer, ry, rx, inner], where=where)

    facts = workload(strides, padding, dilation, groups, ic_block=ib, oc_block=ob, joined=joined)
    out = te.compute((n, oco, oh, ow, ob), body, "grouped_conv2d_NCHWc", tag.GROUPED_CONV2D_NCHWC, facts)
    return finish(out, data, out_dtype)


def parts_of_block(block: Any, out_block: int, filters: int) -> tuple[Any, Any]:
    """The first and the last group of `filters` channels that the `block`-th block of output channels has one of."""
    return block * out_block // filters, (block * out_block + out_block - 1) // filters
