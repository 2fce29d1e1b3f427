"""Reference sampling of images at fractional coordinates, in float64, one position at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np


def _weights(position: float, method: str) -> list[tuple[int, float]]:
    """(pixel, weight) of interpolation along one axis."""
    if method == "nearest":
        return [(round(position), 1.0)]
    base = math.floor(position)
    t = position - base
    if method == "bilinear":
        return [(base, 1 - t), (base + 1, t)]
    a = -0.75

    def kernel(u: float) -> float:
        u = abs(u)
        if u <= 1:
            return (a + 2) * u**3 - (a + 3) * u**2 + 1
        return a * u**3 - 5 * a * u**2 + 8 * a * u - 4 * a

    return [(base + k, kernel(t - k)) for k in (-1, 0, 1, 2)]


def _owner(images: np.ndarray, index: Any) -> np.ndarray:
    """The image of that index, or the nearest that there is: the first one for NaN."""
    return images[int(min(max(0, index), len(images) - 1))]


def at(image: np.ndarray, y: float, x: float, method: str, zeros: bool) -> np.ndarray:
    """`image` [C, H, W] at (y, x); beside it 0 or the nearest pixel."""
    h, w = image.shape[1:]
    total = np.zeros(image.shape[0])
    for row, row_weight in _weights(y, method):
        for column, column_weight in _weights(x, method):
            if zeros and not (0 <= row < h and 0 <= column < w):
                continue
            pixel = image[:, min(max(row, 0), h - 1), min(max(column, 0), w - 1)]
            total += row_weight * column_weight * pixel
    return total


def _mirrored(position: float, size: int, align_corners: bool) -> float:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    while high > low and not low <= position <= high:
        position = 2 * low - position if position < low else 2 * high - position
    return position


def grid_sample(data: np.ndarray, grid: np.ndarray, attrs: Any) -> np.ndarray:
    """`image.grid_sample` of NCHW data."""
    align, mode = attrs["align_corners"], attrs["padding_mode"]
    out = np.empty((*data.shape[:2], *grid.shape[2:]), data.dtype)
    for n, i, j in np.ndindex(data.shape[0], *grid.shape[2:]):
        positions = []
        for g, size in ((float(grid[n, 1, i, j]), data.shape[2]), (float(grid[n, 0, i, j]), data.shape[3])):
            position = (g + 1) * (size - 1) / 2 if align else ((g + 1) * size - 1) / 2
            if mode == "reflection":
                position = _mirrored(position, size, align)
            positions.append(position if mode == "zeros" else min(max(position, 0.0), size - 1.0))
        out[n, :, i, j] = at(data[n], positions[0], positions[1], attrs["method"], mode == "zeros")
    return out


def crop_and_resize(data: np.ndarray, boxes: np.ndarray, owners: np.ndarray, attrs: Any) -> np.ndarray:
    """`image.crop_and_resize` of NCHW data."""
    size, method = attrs["crop_size"], {"nearest_neighbor": "nearest"}.get(attrs["method"], attrs["method"])
    h, w = data.shape[2:]
    out = np.full((len(boxes), data.shape[1], *size), attrs["extrapolation_value"], data.dtype)
    for m, i, j in np.ndindex(len(boxes), *size):
        y1, x1, y2, x2 = (float(v) for v in boxes[m])
        y, x = _between(y1, y2, i, size[0]) * (h - 1), _between(x1, x2, j, size[1]) * (w - 1)
        if 0 <= y <= h - 1 and 0 <= x <= w - 1:
            out[m, :, i, j] = at(_owner(data, owners[m]), y, x, method, False)
    return out


def _between(start: float, end: float, index: int, count: int) -> float:
    """Point `index` of `count` from `start` to `end`; the middle for one."""
    if count == 1:
        return (start + end) / 2
    return ((count - 1 - index) * start + index * end) / (count - 1)


def dilation2d(data: np.ndarray, weight: np.ndarray, attrs: Any) -> np.ndarray:
    """Morphological dilation of NCHW data by weights [C, KH, KW]."""
    (sh, sw), (dh, dw) = attrs["strides"], attrs["dilations"]
    top, left, bottom, right = attrs["padding"]
    padded = np.pad(data, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf)
    kh, kw = weight.shape[1:]
    oh = (padded.shape[2] - (kh - 1) * dh - 1) // sh + 1
    ow = (padded.shape[3] - (kw - 1) * dw - 1) // sw + 1
    out = np.full((*data.shape[:2], oh, ow), -np.inf)
    for y, x in np.ndindex(kh, kw):
        rows, columns = slice(y * dh, y * dh + (oh - 1) * sh + 1, sh), slice(x * dw, x * dw + (ow - 1) * sw + 1, sw)
        out = np.maximum(out, padded[:, :, rows, columns] + weight[None, :, y, x, None, None])
    return out.astype(data.dtype)


def roi_align(data: np.ndarray, rois: np.ndarray, attrs: Any) -> np.ndarray:
    """`vision.roi_align` of NCHW data, sample by sample."""
    size, scale, ratio = attrs["pooled_size"], attrs["spatial_scale"], attrs["sample_ratio"]
    h, w = data.shape[2:]
    out = np.empty((len(rois), data.shape[1], *size), data.dtype)
    for r, i, j in np.ndindex(len(rois), *size):
        x1, y1, x2, y2 = (float(v) * scale for v in rois[r, 1:])
        least = -math.inf if attrs["aligned"] else 1.0
        height, width = max(y2 - y1, least) / size[0], max(x2 - x1, least) / size[1]
        x1, y1 = (v - 0.5 if attrs["aligned"] else v for v in (x1, y1))
        rows = ratio if ratio > 0 else min(math.ceil(height), -(-h // size[0]) + 1)
        columns = ratio if ratio > 0 else min(math.ceil(width), -(-w // size[1]) + 1)
        samples = []
        for a, b in np.ndindex(rows, columns):
            y, x = y1 + i * height + (a + 0.5) * height / rows, x1 + j * width + (b + 0.5) * width / columns
            beside = y < -1 or y > h or x < -1 or x > w
            near = min(max(y, 0.0), h - 1.0), min(max(x, 0.0), w - 1.0)
            value = at(_owner(data, rois[r, 0]), *near, "bilinear", False)
            samples.append(np.zeros_like(value) if beside else value)
        if not samples:
            out[r, :, i, j] = -np.inf if attrs["mode"] == "max" else 0
            continue
        out[r, :, i, j] = np.max(samples, 0) if attrs["mode"] == "max" else np.mean(samples, 0)
    return out


def roi_pool(data: np.ndarray, rois: np.ndarray, attrs: Any) -> np.ndarray:
    """`vision.roi_pool` of NCHW data."""
    size, scale = attrs["pooled_size"], np.float32(attrs["spatial_scale"])
    h, w = data.shape[2:]
    out = np.zeros((len(rois), data.shape[1], *size), data.dtype)
    for r, i, j in np.ndindex(len(rois), *size):
        x1, y1, x2, y2 = (float(np.rint(v * scale)) for v in rois[r, 1:])
        height, width = (np.float32(max(e - s + 1, 1)) for s, e in ((y1, y2), (x1, x2)))
        high, wide = height / np.float32(size[0]), width / np.float32(size[1])
        rows = [max(0, int(math.floor(i * high) + y1)), min(h, int(math.ceil((i + 1) * high) + y1))]
        columns = [max(0, int(math.floor(j * wide) + x1)), min(w, int(math.ceil((j + 1) * wide) + x1))]
        if rows[0] < rows[1] and columns[0] < columns[1]:
            out[r, :, i, j] = _owner(data, rois[r, 0])[:, slice(*rows), slice(*columns)].max((1, 2))
    return out


def deformable_conv2d(data: np.ndarray, offset: np.ndarray, weight: np.ndarray, attrs: Any) -> np.ndarray:
    """Convolution whose taps are moved by `offset`, in NCHW and OIHW."""
    (sh, sw), (dh, dw), (top, left, _, _) = attrs["strides"], attrs["dilation"], attrs["padding"]
    o, icg, kh, kw = weight.shape
    groups, shared = attrs["groups"], data.shape[1] // attrs["deformable_groups"]
    out = np.zeros((data.shape[0], o, *offset.shape[2:]), data.dtype)
    for n, i, j in np.ndindex(data.shape[0], *offset.shape[2:]):
        columns = np.empty((data.shape[1], kh, kw))
        for d, y, x in np.ndindex(attrs["deformable_groups"], kh, kw):
            first = ((d * kh + y) * kw + x) * 2
            position_y = i * sh + y * dh - top + float(offset[n, first, i, j])
            position_x = j * sw + x * dw - left + float(offset[n, first + 1, i, j])
            part = slice(d * shared, (d + 1) * shared)
            columns[part, y, x] = at(data[n, part], position_y, position_x, "bilinear", True)
        grouped = columns.reshape(groups, icg, kh, kw)
        kernel = weight.reshape(groups, o // groups, icg, kh, kw)
        out[n, :, i, j] = np.einsum("gchw,gochw->go", grouped, kernel).reshape(o)
    return out


def correlation(a: np.ndarray, b: np.ndarray, attrs: Any) -> np.ndarray:
    """`nn.correlation` of NCHW data, displacement by displacement."""
    top, left, bottom, right = attrs["padding"]
    size, reach, step, grid = (attrs[n] for n in ("kernel_size", "max_displacement", "stride1", "stride2"))
    width = ((0, 0), (0, 0), (top, bottom), (left, right))
    p, q = np.pad(a, width).astype(np.float64), np.pad(b, width).astype(np.float64)
    border, radius = reach + (size - 1) // 2, reach // grid
    oh, ow = (-(-(extent - 2 * border) // step) for extent in p.shape[2:])
    side = 2 * radius + 1
    out = np.empty((a.shape[0], side * side, oh, ow), a.dtype)
    for d, i, j in np.ndindex(side * side, oh, ow):
        dy, dx = (d // side - radius) * grid, (d % side - radius) * grid
        y, x = i * step + reach, j * step + reach
        first = p[:, :, y : y + size, x : x + size]
        second = q[:, :, y + dy : y + dy + size, x + dx : x + dx + size]
        value = first * second if attrs["is_multiply"] else np.abs(first - second)
        out[:, d, i, j] = value.sum((1, 2, 3)) / (size * size * a.shape[1])
    return out


def multibox_prior(height: int, width: int, attrs: Any) -> np.ndarray:
    """[1, H·W·(S + R - 1), 4]: boxes (x1, y1, x2, y2) around the middle of each cell of a feature map."""
    sizes: Sequence[float] = attrs["sizes"]
    ratios: Sequence[float] = attrs["ratios"]
    steps = [step if step > 0 else 1.0 / extent for step, extent in zip(attrs["steps"], (height, width))]
    boxes = []
    for i, j in np.ndindex(height, width):
        y, x = (i + attrs["offsets"][0]) * steps[0], (j + attrs["offsets"][1]) * steps[1]
        shapes = [(s * height / width / 2, s / 2) for s in sizes]
        root = [math.sqrt(r) for r in ratios[1:]]
        shapes += [(sizes[0] * height / width * r / 2, sizes[0] / r / 2) for r in root]
        boxes += [(x - w, y - h, x + w, y + h) for w, h in shapes]
    result = np.array(boxes, np.float32)[None]
    return np.clip(result, 0, 1) if attrs["clip"] else result
