"""Reference convolutions and pooling over any number of spatial axes, window by window."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.reference.pooling import lowest
from tilewright.topi.shapes import adaptive_window, pool_output


def convolution(data: np.ndarray, weight: np.ndarray, attrs: Any, axes: str, transposed: bool) -> np.ndarray:
    """A convolution (or its transpose) of data in layout NC… with a kernel OI… (or IO…), tap by tap."""
    x = layout_transform(data, attrs["data_layout"], "NC" + axes)
    kernel = layout_transform(weight, attrs["kernel_layout"], ("IO" if transposed else "OI") + axes)
    function = _transposed if transposed else _straight
    out = function(x, kernel, attrs, len(axes)).astype(attrs["out_dtype"] or data.dtype)
    return layout_transform(out, "NC" + axes, attrs["out_layout"] or attrs["data_layout"])


def _last(*where: Any) -> Any:
    """The index of `where` on the last axes."""
    return (..., *where)


def _taps(kernel: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return np.ndindex(*kernel)


def _straight(x: np.ndarray, kernel: np.ndarray, attrs: Any, rank: int) -> np.ndarray:
    pads, strides, dilation, groups = attrs["padding"], attrs["strides"], attrs["dilation"], attrs["groups"]
    size = kernel.shape[2:]
    padded = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])]).astype(np.float64)
    spans = [(k - 1) * d + 1 for k, d in zip(size, dilation)]
    out = [(full - span) // s + 1 for full, span, s in zip(padded.shape[2:], spans, strides)]
    n, c, o = x.shape[0], x.shape[1], kernel.shape[0]
    total = np.zeros((n, groups, o // groups, *out))
    for tap in _taps(size):
        where = tuple(slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilation, out, strides))
        part = padded[_last(*where)].reshape(n, groups, c // groups, *out)
        weights = kernel[_last(*tap)].reshape(groups, o // groups, c // groups)
        total += np.einsum("ngc...,goc->ngo...", part, weights)
    return total.reshape(n, o, *out)


def _transposed(x: np.ndarray, kernel: np.ndarray, attrs: Any, rank: int) -> np.ndarray:
    pads, strides, dilation, groups = attrs["padding"], attrs["strides"], attrs["dilation"], attrs["groups"]
    size, n, c = kernel.shape[2:], x.shape[0], x.shape[1]
    og = kernel.shape[1]
    whole = [
        (m - 1) * s + (k - 1) * d + 1 + e
        for m, s, k, d, e in zip(x.shape[2:], strides, size, dilation, attrs["output_padding"])
    ]
    total = np.zeros((n, groups * og, *whole))
    grouped = x.astype(np.float64).reshape(n, groups, c // groups, *x.shape[2:])
    for tap in _taps(size):
        steps = zip(tap, dilation, x.shape[2:], strides)
        where = tuple(slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in steps)
        weights = kernel[_last(*tap)].reshape(groups, c // groups, og)
        part = np.einsum("ngc...,gco->ngo...", grouped, weights)
        total[_last(*where)] += part.reshape(n, groups * og, *x.shape[2:])
    cut = tuple(slice(before, size - after) for size, before, after in zip(whole, pads[:rank], pads[rank:]))
    return total[_last(*cut)]


def pool(data: np.ndarray, kind: str, attrs: Any, axes: str) -> np.ndarray:
    """``"max"`` or ``"avg"`` pooling, one window at a time; windows count elements of the padding only if asked to."""
    x, rank = layout_transform(data, attrs["layout"], "NC" + axes), len(axes)
    size, strides, dilation = attrs["pool_size"], attrs["strides"], attrs["dilation"]
    before, after = attrs["padding"][:rank], attrs["padding"][rank:]
    out = [
        pool_output(x.shape[2 + d], size[d], strides[d], before[d], after[d], dilation[d], attrs["ceil_mode"])
        for d in range(rank)
    ]
    result = np.empty((*x.shape[:2], *out), x.dtype)
    for position in np.ndindex(*out):
        taps, count = [], 1
        for d, index in enumerate(position):
            steps = index * strides[d] - before[d] + np.arange(size[d]) * dilation[d]
            inside = (steps >= 0) & (steps < x.shape[2 + d])
            counted = (steps >= -before[d]) & (steps < x.shape[2 + d] + after[d])
            taps.append(steps[inside])
            count *= (counted if attrs.get("count_include_pad") else inside).sum()
        window = x[(slice(None), slice(None), *np.ix_(*taps))].reshape(*x.shape[:2], math.prod(map(len, taps)))
        if kind == "max":
            result[_last(*position)] = window.max(-1, initial=lowest(x.dtype))
        else:
            result[_last(*position)] = window.sum(-1, dtype=np.float64) / max(1, count)
    return layout_transform(result, "NC" + axes, attrs["layout"])


def adaptive_pool(data: np.ndarray, kind: str, output_size: Sequence[int], layout: str, axes: str) -> np.ndarray:
    """Pooling whose windows divide the axes into `output_size` nearly equal, possibly overlapping parts."""
    x = layout_transform(data, layout, "NC" + axes)
    result = np.empty((*x.shape[:2], *output_size), x.dtype)
    for position in np.ndindex(*output_size):
        edges = [adaptive_window(p, size, out) for p, size, out in zip(position, x.shape[2:], output_size)]
        window = x[_last(*[slice(*edge) for edge in edges])]
        spatial = tuple(range(2, window.ndim))
        result[_last(*position)] = window.max(spatial) if kind == "max" else window.mean(spatial, dtype=np.float64)
    return layout_transform(result, "NC" + axes, layout)
