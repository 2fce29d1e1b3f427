"""Reference pooling in NumPy, for any layout with H and W whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.support.dtype import DType
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.shapes import adaptive_window, pool_output


def lowest(dtype: np.dtype[Any]) -> Any:
    """The value that never wins a maximum: -inf, or the smallest integer."""
    return DType(dtype).extremes()[0]


def highest(dtype: np.dtype[Any]) -> Any:
    """The value that never wins a minimum: inf, or the largest integer."""
    return DType(dtype).extremes()[1]


def pool2d(data: np.ndarray, kind: str, attrs: Any, layout: str = "NCHW") -> np.ndarray:
    """``"max"`` or ``"avg"`` pooling over H and W with the attributes of `nn.max_pool2d` / `nn.avg_pool2d`."""
    plain = layout_transform(data, layout, "NCHW")
    kernel, strides, dilation = attrs["pool_size"], attrs["strides"], attrs["dilation"]
    top, left, bottom, right = attrs["padding"]
    pads = ((top, bottom), (left, right))
    out = [
        pool_output(plain.shape[2 + i], kernel[i], strides[i], *pads[i], dilation[i], attrs["ceil_mode"])
        for i in range(2)
    ]
    last = [(out[i] - 1) * strides[i] + (kernel[i] - 1) * dilation[i] + 1 for i in range(2)]
    reach = [max(0, last[i] - plain.shape[2 + i] - sum(pads[i])) for i in range(2)]
    width = ((0, 0), (0, 0), (top, bottom + reach[0]), (left, right + reach[1]))
    taps = [
        (
            slice(y, y + (out[0] - 1) * strides[0] + 1, strides[0]),
            slice(x, x + (out[1] - 1) * strides[1] + 1, strides[1]),
        )
        for y in range(0, kernel[0] * dilation[0], dilation[0])
        for x in range(0, kernel[1] * dilation[1], dilation[1])
    ]
    if kind == "max":
        padded = np.pad(plain, width, constant_values=lowest(plain.dtype))
        result = padded[(..., *taps[0])]
        for tap in taps[1:]:
            result = np.maximum(result, padded[(..., *tap)])
        return layout_transform(np.ascontiguousarray(result), "NCHW", layout)
    work = np.float64 if plain.dtype.kind == "f" or plain.dtype.name == "bfloat16" else np.int64
    padded = np.pad(plain.astype(work), width)
    total = sum(padded[(..., *tap)] for tap in taps)
    inside = np.ones(plain.shape[2:])
    counted = np.pad(inside, pads, constant_values=1.0 if attrs["count_include_pad"] else 0.0)
    counted = np.pad(counted, ((0, reach[0]), (0, reach[1])))
    count = np.maximum(sum(counted[tap] for tap in taps), 1)
    mean = total / count if work == np.float64 else np.trunc(total / count)
    return layout_transform(mean.astype(plain.dtype), "NCHW", layout)


def adaptive_pool2d(data: np.ndarray, kind: str, output_size: Sequence[int], layout: str = "NCHW") -> np.ndarray:
    """Pooling whose windows divide H and W into `output_size` nearly equal, possibly overlapping parts."""
    plain = layout_transform(data, layout, "NCHW")
    reduce_ = np.max if kind == "max" else np.mean
    work = plain if kind == "max" else plain.astype(np.float64)  # exact in integers too, where rounded towards zero
    result = np.empty((*plain.shape[:2], *output_size), plain.dtype)
    for y in range(output_size[0]):
        for x in range(output_size[1]):
            y0, y1 = adaptive_window(y, plain.shape[2], output_size[0])
            x0, x1 = adaptive_window(x, plain.shape[3], output_size[1])
            result[:, :, y, x] = reduce_(work[:, :, y0:y1, x0:x1], axis=(2, 3))
    return layout_transform(result, "NCHW", layout)
