"""Reference convolutions in NumPy: one matrix product per kernel tap, so fast enough to fold constants with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.topi.reference.layout import layout_transform


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type to sum products in: float32 for half floats, int32 for narrow integers, else the type itself."""
    if dtype.kind in "iub":
        return dtype if dtype.itemsize >= 4 else np.dtype("int32")
    return np.dtype("float32") if dtype.itemsize < 4 else dtype


def _window(data: np.ndarray, tap: tuple[int, int], strides: Sequence[int], out: tuple[int, int]) -> np.ndarray:
    """The elements of the last two axes that kernel offset `tap` meets, one per output position."""
    (y, x), (sy, sx), (oh, ow) = tap, strides, out
    return data[..., y : y + (oh - 1) * sy + 1 : sy, x : x + (ow - 1) * sx + 1 : sx]


def conv2d_nchw(
    data: np.ndarray,
    kernel: np.ndarray,
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    out_dtype: str = "",
) -> np.ndarray:
    """2-D convolution of `data` [N, C, H, W] with `kernel` [O, C/groups, KH, KW]; padding is top, left, bottom, right.

    Sums in float32 for half floats and in int32 for narrow integers; the result has `out_dtype` or the data's type.
    """
    result_type = np.dtype(out_dtype) if out_dtype else data.dtype
    work = _accumulator(result_type)
    top, left, bottom, right = padding
    padded = np.pad(data.astype(work), ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, _, h, w = padded.shape
    o, icg, kh, kw = kernel.shape
    oh = (h - (kh - 1) * dilation[0] - 1) // strides[0] + 1
    ow = (w - (kw - 1) * dilation[1] - 1) // strides[1] + 1
    grouped = padded.reshape(n, groups, icg, h, w)
    weights = kernel.astype(work).reshape(groups, o // groups, icg, kh, kw)
    out = np.zeros((n, groups, o // groups, oh * ow), work)
    for y in range(kh):
        for x in range(kw):
            taps = _window(grouped, (y * dilation[0], x * dilation[1]), strides, (oh, ow))
            if icg == 1:
                out += weights[None, :, :, 0, y, x, None] * taps.reshape(n, groups, 1, oh * ow)
            else:
                out += np.matmul(weights[:, :, :, y, x], taps.reshape(n, groups, icg, oh * ow))
    return out.reshape(n, o, oh, ow).astype(result_type)


def conv2d(data: np.ndarray, kernel: np.ndarray, attrs: Any) -> np.ndarray:
    """`nn.conv2d` with its attributes: operands are brought to NCHW and OIHW, the result to `out_layout`."""
    data_layout, kernel_layout = attrs["data_layout"], attrs["kernel_layout"]
    plain_kernel = layout_transform(kernel, kernel_layout, "OIHW")
    plain = layout_transform(data, data_layout, "NCHW")
    out = conv2d_nchw(
        plain,
        plain_kernel,
        attrs["strides"],
        attrs["padding"],
        attrs["dilation"],
        attrs["groups"],
        attrs["out_dtype"],
    )
    return layout_transform(out, "NCHW", attrs["out_layout"] or data_layout)


def conv2d_transpose_nchw(
    data: np.ndarray,
    kernel: np.ndarray,
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
    output_padding: Sequence[int] = (0, 0),
    out_dtype: str = "",
) -> np.ndarray:
    """Transposed 2-D convolution of `data` [N, C, H, W] with `kernel` [C, O/groups, KH, KW].

    Every input element adds its product with the kernel to the output; `padding` (top, left, bottom, right) is cut off
    the result and `output_padding` adds rows below and columns to the right of it.
    """
    result_type = np.dtype(out_dtype) if out_dtype else data.dtype
    work = _accumulator(result_type)
    n, c, h, w = data.shape
    _, ocg, kh, kw = kernel.shape
    full_h = (h - 1) * strides[0] + (kh - 1) * dilation[0] + 1 + output_padding[0]
    full_w = (w - 1) * strides[1] + (kw - 1) * dilation[1] + 1 + output_padding[1]
    out = np.zeros((n, groups, ocg, full_h, full_w), work)
    grouped = data.astype(work).reshape(n, groups, c // groups, h * w)
    weights = kernel.astype(work).reshape(groups, c // groups, ocg, kh, kw)
    for y in range(kh):
        for x in range(kw):
            product = np.matmul(weights[:, :, :, y, x].swapaxes(1, 2), grouped)
            _window(out, (y * dilation[0], x * dilation[1]), strides, (h, w))[...] += product.reshape(
                n, groups, ocg, h, w
            )
    top, left, bottom, right = padding
    out = out.reshape(n, groups * ocg, full_h, full_w)[:, :, top : full_h - bottom, left : full_w - right]
    return np.ascontiguousarray(out).astype(result_type)
