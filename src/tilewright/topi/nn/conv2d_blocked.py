"""Direct convolution in blocked layouts: the innermost dimension is a block of channels, one or more vectors wide."""

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

#: Images of up to so many rows of results have enough taps beside them to leave these out.
_CUT_ROWS = 14

#: Images of fewer rows and columns have no rows worth keeping apart.
_WHOLE_ROWS = 14

#: Windows that an element of the image is in, or rows and columns of results, up to which taps beside it are left
#: out: a larger window meets the borders of a larger image in more ways than versions of the code can be made for.
_CUT_TAPS, _CUT_SIZE = 9, 32


def conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """`data` [N, C/ib, H, W, ib] with `kernel` [O/ob, C/ib, KH, KW, ib, ob] to [N, O/ob, OH, OW, ob].

    Stages: data_pad (if there is padding), conv2d_NCHWc with the reduction axes ic_outer, kh, kw, ic_inner. Of small
    images only the columns are padded: rows of taps beside the image are left out, under `likely` conditions. One tap
    on images of symbolic size: conv2d_NCHWc [N, O/ob, OH * OW, ob] with the axes ic_outer, ic_inner; conv2d_image.
    """
    n, ico, h, w, ib = extents(data)
    oco, _, kh, kw, _, ob = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    wide = sum_dtype(data, out_dtype)
    outer, inner = te.reduce_axis((0, ico), name="ic_outer"), te.reduce_axis((0, ib), name="ic_inner")
    facts = workload(strides, padding, dilation, 1, ic_block=ib, oc_block=ob)
    if is_product((h, w), (kh, kw), strides, padding):

        def pixel(b: Any, oc: Any, p: Any, block: Any) -> Any:
            value = data(b, outer, p // ow, p % ow, inner).astype(wide)
            return te.sum(value * kernel(oc, outer, 0, 0, inner, block).astype(wide), axis=[outer, inner])

        product = te.compute((n, oco, oh * ow, ob), pixel, "conv2d_NCHWc", tag.CONV2D_NCHWC, facts)
        return finish(_image(product, oh, ow), data, out_dtype)
    cut = isinstance(oh, int) and oh <= _CUT_ROWS
    above, below = (0, 0) if cut else (padding[0], padding[2])
    padded = pad(data, (0, 0, above, padding[1], 0), (0, 0, below, padding[3], 0))
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")

    def body(b: Any, oc: Any, y: Any, x: Any, block: Any) -> Any:
        row = y * strides[0] + ry * dilation[0] - (padding[0] - above)
        value = padded(b, outer, row, x * strides[1] + rx * dilation[1], inner)
        weight = kernel(oc, outer, ry, rx, inner, block)
        inside = _inside(row, h, padding[0], padding[2]) if cut else []
        where = tir.all(*inside) if inside else None
        return te.sum(value.astype(wide) * weight.astype(wide), axis=[outer, ry, rx, inner], where=where)

    out = te.compute((n, oco, oh, ow, ob), body, "conv2d_NCHWc", tag.CONV2D_NCHWC, facts)
    return finish(out, data, out_dtype)


def conv2d_first_NCHWc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """Plain `data` [N, C, H, W] of few channels (a first layer), `kernel` [O/ob, C, KH, KW, ob], blocked result.

    Stages: data_pad (if there is padding), conv2d_first_NCHWc with the reduction axes ic, kh, kw; as `conv2d_NCHWc`.
    """
    n, c, h, w = extents(data)
    oco, _, kh, kw, ob = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    wide = sum_dtype(data, out_dtype)
    rc = te.reduce_axis((0, c), name="ic")
    facts = workload(strides, padding, dilation, 1, oc_block=ob)
    if is_product((h, w), (kh, kw), strides, padding):

        def pixel(b: Any, oc: Any, p: Any, block: Any) -> Any:
            value = data(b, rc, p // ow, p % ow).astype(wide)
            return te.sum(value * kernel(oc, rc, 0, 0, block).astype(wide), axis=rc)

        product = te.compute((n, oco, oh * ow, ob), pixel, "conv2d_first_NCHWc", tag.CONV2D_FIRST, facts)
        return finish(_image(product, oh, ow), data, out_dtype)
    cut = isinstance(oh, int) and oh <= _CUT_ROWS
    above, below = (0, 0) if cut else (padding[0], padding[2])
    padded = pad(data, (0, 0, above, padding[1]), (0, 0, below, padding[3]))
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")

    def body(b: Any, oc: Any, y: Any, x: Any, block: Any) -> Any:
        row = y * strides[0] + ry * dilation[0] - (padding[0] - above)
        value = padded(b, rc, row, x * strides[1] + rx * dilation[1])
        inside = _inside(row, h, padding[0], padding[2]) if cut else []
        product = value.astype(wide) * kernel(oc, rc, ry, rx, block).astype(wide)
        return te.sum(product, axis=[rc, ry, rx], where=tir.all(*inside) if inside else None)

    out = te.compute((n, oco, oh, ow, ob), body, "conv2d_first_NCHWc", tag.CONV2D_FIRST, facts)
    return finish(out, data, out_dtype)


def is_product(size: Sequence[Any], kernel: Sequence[int], strides: Sequence[int], padding: Sequence[int]) -> bool:
    """True if a blocked convolution runs as a product over all pixels: one tap, on images of symbolic or of small size.

    Their rows need not be whole register tiles, so that each row would have a tile that is partly wasted.
    """
    known = [s for s in size if isinstance(s, int)]
    one_tap = (*kernel, *strides) == (1, 1, 1, 1) and not any(padding)
    return one_tap and (len(known) < 2 or max(known) < _WHOLE_ROWS)


def _image(product: Tensor, height: Any, width: Any) -> Tensor:
    """The image [N, O/b, H, W, b] of the pixels of `product` [N, O/b, H * W, b]."""
    n, blocks, _, block = extents(product)
    return te.compute(
        (n, blocks, height, width, block),
        lambda b, f, y, x, lane: product(b, f, y * width + x, lane),
        name="conv2d_image",
        tag=tag.INJECTIVE,
    )


def copies_borders(kernel_size: Sequence[int], strides: Sequence[int], size: Sequence[Any]) -> bool:
    """True if a depthwise convolution by such a window to results of `size` reads a copy of the image with its padding.

    That is so of large windows: the copy is read many times, and taps beside the image are few of all.
    """
    known = [results for results in size if isinstance(results, int)]
    overlapping = math.prod(-(-taps // stride) for taps, stride in zip(kernel_size, strides, strict=True))
    return overlapping > _CUT_TAPS and max(known, default=0) > _CUT_SIZE


def _inside(position: Any, size: Any, before: int, after: int) -> list[Any]:
    """The conditions under which `position` is in an image of `size`, where the padding makes them needed."""
    conditions = [tir.likely(position >= 0)] if before else []
    return conditions + ([tir.likely(position < size)] if after else [])


def depthwise_conv2d_NCHWc(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """Each channel with its own kernel: `data` [N, C/b, H, W, b], `kernel` [C/b, 1, KH, KW, 1, b].

    Stages: data_pad (if there is padding, of large windows: see `copies_borders`), depthwise_conv2d_NCHWc with the
    reduction axes kh, kw. Else taps beside the image are left out under `likely` conditions: a padded copy would be
    read a few times for every time that it is written.
    """
    n, co, h, w, block_size = extents(data)
    kh, kw = extents(kernel)[2:4]
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    wide = sum_dtype(data, out_dtype)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")
    image, (top, left, bottom, right) = data, padding
    if copies_borders((kh, kw), strides, (oh, ow)):
        image = pad(data, (0, 0, top, left, 0), (0, 0, bottom, right, 0))
        top = left = bottom = right = 0

    def body(b: Any, c: Any, y: Any, x: Any, block: Any) -> Any:
        row = y * strides[0] + ry * dilation[0] - top
        column = x * strides[1] + rx * dilation[1] - left
        inside = _inside(row, h, top, bottom) + _inside(column, w, left, right)
        product = image(b, c, row, column, block).astype(wide) * kernel(c, 0, ry, rx, 0, block).astype(wide)
        return te.sum(product, axis=[ry, rx], where=tir.all(*inside) if inside else None)

    out = te.compute(
        (n, co, oh, ow, block_size),
        body,
        name="depthwise_conv2d_NCHWc",
        tag=tag.DEPTHWISE_NCHWC,
        attrs=workload(strides, padding, dilation, co * block_size, oc_block=block_size),
    )
    return finish(out, data, out_dtype)
