"""Grouped convolution in blocked layouts: each block of output channels reads the input channels of its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
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
) -> Tensor:
    """`data` [N, C/ib, H, W, ib], `kernel` [O/ob, C/groups/ib, KH, KW, ib, ob] to [N, O/ob, OH, OW, ob].

    Blocks must not reach over the border between two groups: ib divides C/groups, ob divides O/groups. Stages: data_pad
    (if there is padding), grouped_conv2d_NCHWc with the reduction axes ic_outer, kh, kw, ic_inner.
    """
    n, _, h, w, ib = extents(data)
    oco, ico, kh, kw, _, ob = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    wide = sum_dtype(data, out_dtype)
    padded = pad(data, (0, 0, padding[0], padding[1], 0), (0, 0, padding[2], padding[3], 0))
    outer, inner = te.reduce_axis((0, ico), name="ic_outer"), te.reduce_axis((0, ib), name="ic_inner")
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")
    blocks = oco // groups

    def body(b: Any, oc: Any, y: Any, x: Any, block: Any) -> Any:
        row, column = y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1]
        value = padded(b, oc // blocks * ico + outer, row, column, inner)
        weight = kernel(oc, outer, ry, rx, inner, block)
        return te.sum(value.astype(wide) * weight.astype(wide), axis=[outer, ry, rx, inner])

    facts = workload(strides, padding, dilation, groups, ic_block=ib, oc_block=ob)
    out = te.compute((n, oco, oh, ow, ob), body, "grouped_conv2d_NCHWc", tag.GROUPED_CONV2D_NCHWC, facts)
    return finish(out, data, out_dtype)
