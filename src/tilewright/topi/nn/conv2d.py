"""Direct convolution in the plain layout: any group count, stride, dilation and padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.elemwise import unary
from tilewright.topi.nn.pad import pad, pad_by_phase
from tilewright.topi.shapes import conv_output
from tilewright.topi.util import accumulator_dtype, extents


def sum_dtype(data: Tensor, out_dtype: str) -> str:
    """The type to sum products in: float32 for half floats, int32 at least for integers."""
    wanted = accumulator_dtype(out_dtype or data.dtype)
    return "int32" if wanted in ("int8", "uint8", "int16", "uint16") else wanted


def finish(out: Tensor, data: Tensor, out_dtype: str) -> Tensor:
    """`out` in the requested type: itself, or converted in an element-wise stage."""
    wanted = out_dtype or data.dtype
    return out if out.dtype == wanted else unary(out, lambda v: v.astype(wanted), "cast")


def workload(
    strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, **more: Any
) -> dict[str, Any]:
    """The facts of a convolution that schedules ask for, as the attributes of its stage."""
    return {
        "strides": tuple(strides),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "groups": groups,
        **more,
    }


def output_size(
    size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[int, int]:
    """Height and width of the result; `padding` is top, left, bottom, right."""
    oh, ow = (conv_output(size[i], kernel[i], strides[i], padding[i], padding[i + 2], dilation[i]) for i in range(2))
    return oh, ow


def conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    out_dtype: str = "",
) -> Tensor:
    """Convolution of `data` [N, C, H, W] with `kernel` [O, C/groups, KH, KW] to [N, O, OH, OW].

    Stages: data_pad [N, C, H, S, W / S], the padded columns by their remainder to the stride S (left out where there is
    neither padding nor a stride), conv2d_nchw with the reduction axes ic, kh, kw. A kernel of one tap without groups or
    padding is a matrix product, see `conv2d_1x1_nchw`.
    """
    n, _, h, w = extents(data)
    o, icg, kh, kw = extents(kernel)
    if (kh, kw, groups) == (1, 1, 1) and not any(padding):
        return conv2d_1x1_nchw(data, kernel, strides, out_dtype)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    read = _columns_by_phase(data, padding, strides[1], (ow - 1) * strides[1] + (kw - 1) * dilation[1] + 1)
    wide = sum_dtype(data, out_dtype)
    rc = te.reduce_axis((0, icg), name="ic")
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")

    def body(b: Any, f: Any, y: Any, x: Any) -> Any:
        channel = rc if groups == 1 else f // (o // groups) * icg + rc
        value = read(b, channel, y * strides[0] + ry * dilation[0], x, rx * dilation[1])
        return te.sum(value.astype(wide) * kernel(f, rc, ry, rx).astype(wide), axis=[rc, ry, rx])

    out = te.compute(
        (n, o, oh, ow),
        body,
        name="conv2d_nchw",
        tag=tag.CONV2D_NCHW,
        attrs=workload(strides, padding, dilation, groups),
    )
    return finish(out, data, out_dtype)


def conv2d_1x1_nchw(data: Tensor, kernel: Tensor, strides: Sequence[int] = (1, 1), out_dtype: str = "") -> Tensor:
    """Convolution of `data` [N, C, H, W] by one tap, `kernel` [O, C, 1, 1], to [N, O, OH, OW]: a product of matrices.

    Stages: data_pad (only with strides: the pixels that count, [N, C, OH, OW]), conv2d_1x1_nchw [N, O, OH * OW] with
    the reduction axis ic, conv2d_image.
    """
    n, c, h, w = extents(data)
    o = extents(kernel)[0]
    oh, ow = output_size((h, w), (1, 1), strides, (0, 0, 0, 0), (1, 1))
    wide = sum_dtype(data, out_dtype)
    read = data
    if tuple(strides) != (1, 1):
        read = te.compute(
            (n, c, oh, ow), lambda b, f, y, x: data(b, f, y * strides[0], x * strides[1]), name="data_pad", tag=tag.PAD
        )
    rc = te.reduce_axis((0, c), name="ic")
    product = te.compute(
        (n, o, oh * ow),
        lambda b, f, p: te.sum(read(b, rc, p // ow, p % ow).astype(wide) * kernel(f, rc, 0, 0).astype(wide), axis=rc),
        name="conv2d_1x1_nchw",
        tag=tag.CONV2D_1X1_NCHW,
        attrs=workload(strides, (0, 0, 0, 0), (1, 1), 1),
    )
    out = te.compute(
        (n, o, oh, ow), lambda b, f, y, x: product(b, f, y * ow + x), name="conv2d_image", tag=tag.INJECTIVE
    )
    return finish(out, data, out_dtype)


def depthwise_conv2d_nchw(
    data: Tensor,
    kernel: Tensor,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    out_dtype: str = "",
) -> Tensor:
    """Each channel of `data` [N, C, H, W] convolved with its own M kernels of `kernel` [C·M, 1, KH, KW].

    Stages: data_pad [N, C, H, S, W / S], the padded columns by their remainder to the stride S (left out where there is
    neither padding nor a stride), so that neighbouring outputs read neighbouring columns; depthwise_conv2d_nchw with
    the reduction axes kh, kw.
    """
    n, c, h, w = extents(data)
    o, _, kh, kw = extents(kernel)
    multiplier = o // c
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    read = _columns_by_phase(data, padding, strides[1], (ow - 1) * strides[1] + (kw - 1) * dilation[1] + 1)
    wide = sum_dtype(data, out_dtype)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")

    def body(b: Any, f: Any, y: Any, x: Any) -> Any:
        value = read(b, f // multiplier, y * strides[0] + ry * dilation[0], x, rx * dilation[1])
        return te.sum(value.astype(wide) * kernel(f, 0, ry, rx).astype(wide), axis=[ry, rx])

    out = te.compute(
        (n, o, oh, ow),
        body,
        name="depthwise_conv2d_nchw",
        tag=tag.DEPTHWISE_NCHW,
        attrs=workload(strides, padding, dilation, c, channel_multiplier=multiplier),
    )
    return finish(out, data, out_dtype)


def _columns_by_phase(data: Tensor, padding: Sequence[int], stride: int, columns: int) -> Callable[..., Any]:
    """A reader of images for vectors of output columns: a function of (image, channel, padded row, column, shift).

    It returns element `column * stride + shift` of the row. Neighbouring columns are neighbours in memory, unless the
    number of columns is symbolic.
    """
    if not isinstance(columns, int):
        padded = pad(data, (0, 0, padding[0], padding[1]), (0, 0, padding[2], padding[3]))
        return lambda b, f, row, x, shift: padded(b, f, row, x * stride + shift)
    if not any(padding) and stride == 1:
        return lambda b, f, row, x, shift: data(b, f, row, x + shift)
    split = pad_by_phase(data, padding, columns, stride)
    return lambda b, f, row, x, shift: split(b, f, row, shift % stride, x + shift // stride)
