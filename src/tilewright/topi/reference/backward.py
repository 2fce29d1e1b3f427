"""Reference gradients in NumPy: of convolution kernels and of pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.reference.pooling import lowest


def conv2d_backward_weight(gradient: np.ndarray, data: np.ndarray, attrs: Any) -> np.ndarray:
    """The gradient of the kernel [O, C/groups, KH, KW] of a convolution, tap by tap."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["kernel_size"], attrs["strides"], attrs["dilation"]
    top, left, bottom, right = attrs["padding"]
    groups, (n, outputs, oh, ow) = attrs["groups"], gradient.shape
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)))
    channels = data.shape[1] // groups
    grouped = gradient.reshape(n, groups, outputs // groups, oh, ow)
    result = np.empty((outputs, channels, kh, kw), gradient.dtype)
    for y in range(kh):
        for x in range(kw):
            rows = slice(y * dh, y * dh + (oh - 1) * sh + 1, sh)
            columns = slice(x * dw, x * dw + (ow - 1) * sw + 1, sw)
            tap = padded[:, :, rows, columns].reshape(n, groups, channels, oh, ow)
            result[:, :, y, x] = np.einsum("ngohw,ngchw->goc", grouped, tap).reshape(outputs, channels)
    return result


def pool2d_grad(gradient: np.ndarray, data: np.ndarray, kind: str, attrs: Any) -> np.ndarray:
    """The gradient of pooling's data: to the first largest of each window, or shared by what it averaged."""
    g, x = (layout_transform(a, attrs["layout"], "NCHW") for a in (gradient, data))
    (kh, kw), (sh, sw), (dh, dw) = attrs["pool_size"], attrs["strides"], attrs["dilation"]
    top, left, bottom, right = attrs["padding"]
    oh, ow = g.shape[2:]
    reach = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in ((oh, sh, kh, dh), (ow, sw, kw, dw))]
    after = [max(p, r - size - b) for p, r, size, b in zip((bottom, right), reach, x.shape[2:], (top, left))]
    pads = ((0, 0), (0, 0), (top, after[0]), (left, after[1]))
    padded = np.pad(x, pads, constant_values=lowest(x.dtype))
    image = np.pad(np.ones(x.shape[2:], dtype=np.bool_), pads[2:])
    counts = window_counts(x.shape[2:], (oh, ow), attrs) if kind == "avg" else np.ones((oh, ow))
    total = np.zeros_like(padded)
    for i, j in np.ndindex(oh, ow):
        part = (..., slice(i * sh, i * sh + kh * dh, dh), slice(j * sw, j * sw + kw * dw, dw))
        window, own = padded[part], g[:, :, i, j, None, None]
        if kind == "max":
            flat = window.reshape(*window.shape[:2], -1)
            largest = image[part].reshape(-1) & ((flat == flat.max(-1, keepdims=True)) | np.isnan(flat))
            share = (np.arange(flat.shape[-1]) == largest.argmax(-1)[..., None]).reshape(window.shape) * own
        else:
            share = np.broadcast_to(own / counts[i, j], window.shape)
        total[part] += share
    result = total[:, :, top : top + x.shape[2], left : left + x.shape[3]]
    return layout_transform(np.ascontiguousarray(result), "NCHW", attrs["layout"])


def max_pool2d_indices(data: np.ndarray, largest: np.ndarray, attrs: Any) -> np.ndarray:
    """[N, C, OH, OW]: the index within its plane of the first element of each window that is the largest or NaN."""
    (kh, kw), (sh, sw), (dh, dw) = attrs["pool_size"], attrs["strides"], attrs["dilation"]
    height, width = data.shape[2:]
    found = np.full(largest.shape, -1, "int64")
    for i, j in np.ndindex(largest.shape[2:]):
        for y, x in reversed(list(np.ndindex(kh, kw))):
            row, column = i * sh - attrs["padding"][0] + y * dh, j * sw - attrs["padding"][1] + x * dw
            if 0 <= row < height and 0 <= column < width:
                value = data[:, :, row, column]
                hit = (value >= largest[:, :, i, j]) | np.isnan(value)
                found[:, :, i, j] = np.where(hit, row * width + column, found[:, :, i, j])
    return found


def max_pool2d_grad_at(gradient: np.ndarray, index: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """[N, C, *sizes]: each gradient added at the index within the plane that belongs to it."""
    planes = gradient.shape[0] * gradient.shape[1]
    total = np.zeros((planes, sizes[0] * sizes[1]), gradient.dtype)
    np.add.at(total, (np.arange(planes)[:, None], index.reshape(planes, -1)), gradient.reshape(planes, -1))
    return total.reshape(*gradient.shape[:2], *sizes)


def window_counts(sizes: Sequence[int], out: Sequence[int], attrs: Any) -> np.ndarray:
    """[OH, OW]: how many elements each window of an average pooling averages (never below 1)."""
    sides = []
    for i in range(2):
        before, after = attrs["padding"][i], attrs["padding"][i + 2]
        low, high = (-before, sizes[i] + after) if attrs["count_include_pad"] else (0, sizes[i])
        starts = np.arange(out[i])[:, None] * attrs["strides"][i] - before
        taps = starts + np.arange(attrs["pool_size"][i]) * attrs["dilation"][i]
        sides.append(np.maximum(1, ((taps >= low) & (taps < high)).sum(1)))
    return np.outer(*sides)
