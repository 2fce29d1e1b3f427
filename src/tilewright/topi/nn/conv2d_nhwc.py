"""Direct convolutions with channels innermost, as devices with matrix instructions and boards read images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import finish, output_size, sum_dtype, workload
from tilewright.topi.nn.pad import pad
from tilewright.topi.util import extents


def conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """Convolution of `data` [N, H, W, C] with `kernel` [O, KH, KW, C] to [N, OH, OW, O]; one group.

    Stages: data_pad (left out without padding), conv2d_nhwc with the reduction axes kh, kw, ic.
    """
    n, h, w, channels = extents(data)
    o, kh, kw, _ = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    top, left, bottom, right = padding
    read = pad(data, (0, top, left, 0), (0, bottom, right, 0))
    wide = sum_dtype(data, out_dtype)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")
    rc = te.reduce_axis((0, channels), name="ic")

    def body(b: Any, y: Any, x: Any, f: Any) -> Any:
        value = read(b, y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1], rc)
        return te.sum(value.astype(wide) * kernel(f, ry, rx, rc).astype(wide), axis=[ry, rx, rc])

    attrs = workload(strides, padding, dilation, 1)
    out = te.compute((n, oh, ow, o), body, name="conv2d_nhwc", tag=tag.CONV2D_NHWC, attrs=attrs)
    return finish(out, data, out_dtype)


def conv2d_nhwc_blocks(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """The same with a kernel packed for `b` output channels at a time, [O/b, KH, KW, C, b].

    Stages: data_pad (left out without padding), conv2d_nhwc_blocks [N, OH, OW, O/b, b], conv2d_image [N, OH, OW, O].
    Of an image one column wide the second is [N, 1, OH, O/b, b], "tall": windows are neighbours there.
    """
    n, h, w, channels = extents(data)
    blocks, kh, kw, _, block = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    top, left, bottom, right = padding
    read = pad(data, (0, top, left, 0), (0, bottom, right, 0))
    wide = sum_dtype(data, out_dtype)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")
    rc = te.reduce_axis((0, channels), name="ic")

    tall = (w, kw, ow, left, right) == (1, 1, 1, 0, 0)

    def body(b: Any, y: Any, x: Any, o: Any, lane: Any) -> Any:
        if tall:
            value = read(b, x * strides[0] + ry * dilation[0], 0, rc)
        else:
            value = read(b, y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1], rc)
        return te.sum(value.astype(wide) * kernel(o, ry, rx, rc, lane).astype(wide), axis=[ry, rx, rc])

    attrs = {**workload(strides, padding, dilation, 1), "tall": tall}
    positions = (n, 1, oh) if tall else (n, oh, ow)
    sums = te.compute((*positions, blocks, block), body, "conv2d_nhwc_blocks", tag.CONV2D_NHWC_BLOCKS, attrs)
    out = te.compute(
        (n, oh, ow, blocks * block),
        lambda b, y, x, o: sums(b, *((0, y) if tall else (y, x)), o // block, o % block),
        name="conv2d_image",
        tag=tag.INJECTIVE,
    )
    return finish(out, data, out_dtype)


def depthwise_conv2d_nhwc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """Convolution of each channel of `data` [N, H, W, C] with a filter of its own, `kernel` [KH, KW, 1, C].

    Stages: data_pad (left out without padding), depthwise_conv2d_nhwc with the reduction axes kh, kw.
    """
    n, h, w, channels = extents(data)
    kh, kw, _, _ = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    top, left, bottom, right = padding
    read = pad(data, (0, top, left, 0), (0, bottom, right, 0))
    wide = sum_dtype(data, out_dtype)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")

    def body(b: Any, y: Any, x: Any, f: Any) -> Any:
        value = read(b, y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1], f)
        return te.sum(value.astype(wide) * kernel(ry, rx, 0, f).astype(wide), axis=[ry, rx])

    attrs = workload(strides, padding, dilation, channels)
    out = te.compute((n, oh, ow, channels), body, "depthwise_conv2d_nhwc", tag.DEPTHWISE_NHWC, attrs)
    return finish(out, data, out_dtype)
