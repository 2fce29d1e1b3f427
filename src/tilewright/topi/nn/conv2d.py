"""Direct convolution in the plain layout: any group count, stride, dilation and padding."""

from __future__ import annotations

from collections.abc import Sequence
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

    Stages: data_pad (if there is padding), conv2d_nchw with the reduction axes ic, kh, kw.
    """
    n, _, h, w = extents(data)
    o, icg, kh, kw = extents(kernel)
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    padded = pad(data, (0, 0, padding[0], padding[1]), (0, 0, padding[2], padding[3]))
    wide = sum_dtype(data, out_dtype)
    rc = te.reduce_axis((0, icg), name="ic")
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")

    def body(b: Any, f: Any, y: Any, x: Any) -> Any:
        channel = rc if groups == 1 else f // (o // groups) * icg + rc
        value = padded(b, channel, y * strides[0] + ry * dilation[0], x * strides[1] + rx * dilation[1])
        return te.sum(value.astype(wide) * kernel(f, rc, ry, rx).astype(wide), axis=[rc, ry, rx])

    out = te.compute(
        (n, o, oh, ow),
        body,
        name="conv2d_nchw",
        tag=tag.CONV2D_NCHW,
        attrs=workload(strides, padding, dilation, groups),
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
    multiplier, stride = o // c, strides[1]
    oh, ow = output_size((h, w), (kh, kw), strides, padding, dilation)
    columns = (ow - 1) * stride + (kw - 1) * dilation[1] + 1
    split = pad_by_phase(data, padding, columns, stride) if any(padding) or stride > 1 else None
    wide = sum_dtype(data, out_dtype)
    ry, rx = te.reduce_axis((0, kh), name="kh"), te.reduce_axis((0, kw), name="kw")

    def body(b: Any, f: Any, y: Any, x: Any) -> Any:
        channel, row, shift = f // multiplier, y * strides[0] + ry * dilation[0], rx * dilation[1]
        if split is None:
            value = data(b, channel, row, x + shift)
        else:
            value = split(b, channel, row, shift % stride, x + shift // stride)
        return te.sum(value.astype(wide) * kernel(f, 0, ry, rx).astype(wide), axis=[ry, rx])

    out = te.compute(
        (n, o, oh, ow),
        body,
        name="depthwise_conv2d_nchw",
        tag=tag.DEPTHWISE_NCHW,
        attrs=workload(strides, padding, dilation, c, channel_multiplier=multiplier),
    )
    return finish(out, data, out_dtype)
