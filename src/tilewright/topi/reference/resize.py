"""Reference image resizing, axis by axis, as interpolation is separable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.runtime.host_ops.resample import TIE, interpolated
from tilewright.topi.reference.layout import layout_transform

COORDINATE_MODES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
)


def source_coordinates(size: int, out: int, scale: float, mode: str) -> np.ndarray:
    """The input coordinate of each of `out` output positions on an axis of `size` elements, in float32."""
    x = np.arange(out, dtype=np.float32)
    half, ratio = np.float32(0.5), np.float32(scale)
    if mode == "asymmetric":
        return x / ratio
    if mode == "align_corners":
        return x * np.float32(size - 1) / np.float32(out - 1) if out > 1 else x * 0
    if mode == "tf_half_pixel_for_nn":
        return (x + half) / ratio
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and out > 1):
        return (x + half) / ratio - half
    if mode == "pytorch_half_pixel":
        return x * 0
    if mode == "half_pixel_symmetric":
        return symmetric_offset(size, out, scale) + (x + half) / ratio - half
    raise UnsupportedError(f"resize2d: coordinate_transformation_mode {mode!r}; known: {', '.join(COORDINATE_MODES)}")


def symmetric_offset(size: int, out: int, scale: float) -> np.float32:
    """Shift of the coordinates that centres the result where the output size is a rounded one."""
    adjustment = np.float32(out) / (np.float32(scale) * np.float32(size))
    return np.float32(size / 2) * (np.float32(1) - adjustment)


def nearest_indices(size: int, out: int, scale: float, mode: str, rounding: str) -> np.ndarray:
    """The source index of each output position of nearest-neighbour resizing."""
    x = source_coordinates(size, out, scale, mode)
    half = 0.5 + TIE
    if rounding == "floor":
        index = np.floor(x)
    elif rounding == "ceil":
        index = np.ceil(x)
    elif rounding in ("round", "round_prefer_ceil"):
        index = np.floor(x.astype(np.float64) + half)
    elif rounding in ("", "round_prefer_floor"):
        index = np.ceil(x.astype(np.float64) - half)
    else:
        raise UnsupportedError(
            f"resize2d: rounding_method {rounding!r}; known: round_prefer_floor, round_prefer_ceil (round), floor, ceil"
        )
    return np.clip(index, 0, size - 1).astype(np.int64)


def _weights(distance: np.ndarray, method: str, alpha: float) -> list[np.ndarray]:
    """Weights of the taps floor(x) + k (k from 0 for linear, from -1 for cubic) at fraction `distance`."""
    if method == "linear":
        return [1 - distance, distance]
    t, a = distance, alpha
    far = [((a * u - 5 * a) * u + 8 * a) * u - 4 * a for u in (t + 1, 2 - t)]
    near = [((a + 2) * u - (a + 3)) * u * u + 1 for u in (t, 1 - t)]
    return [far[0], near[0], near[1], far[1]]


def axis_taps(size: int, out: int, scale: float, attrs: Any) -> tuple[np.ndarray, np.ndarray]:
    """The elements and weights that `linear` or `cubic` interpolates each position of one axis from, [out, taps]."""
    x = source_coordinates(size, out, scale, attrs["coordinate_transformation_mode"]).astype(np.float64)
    base = np.floor(x).astype(np.int64)
    weights = np.stack(_weights(x - base, attrs["method"], attrs["cubic_alpha"]), axis=1)
    first = 0 if attrs["method"] == "linear" else -1
    positions = base[:, None] + np.arange(first, first + weights.shape[1])
    if attrs["cubic_exclude"] and first:
        weights = np.where((positions >= 0) & (positions < size), weights, 0.0)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(positions, 0, size - 1), weights


def axis_scale(size: int, out: int, scales: Sequence[float], axis: int) -> float:
    """The given scale of `axis`, or out / size where none is given."""
    return scales[axis] if scales else out / size


def resize2d(data: np.ndarray, attrs: Any) -> np.ndarray:
    """`image.resize2d` with its attributes; half floats and integers are interpolated in float64."""
    layout = attrs["layout"]
    plain = layout_transform(data, layout, "NCHW")
    sizes, outs = plain.shape[2:], attrs["size"]
    scales = [axis_scale(sizes[i], outs[i], attrs["scales"], i) for i in range(2)]
    if attrs["method"] == "nearest_neighbor":
        mode, rounding = attrs["coordinate_transformation_mode"], attrs["rounding_method"]
        rows, columns = (nearest_indices(sizes[i], outs[i], scales[i], mode, rounding) for i in range(2))
        return layout_transform(plain[:, :, rows][:, :, :, columns], "NCHW", layout)
    out = plain.astype(np.float64)
    for i in (1, 0):
        out = interpolated(out, 2 + i, *axis_taps(sizes[i], outs[i], scales[i], attrs))
    if plain.dtype.kind in "iu":
        out = np.trunc(out)
    return layout_transform(out.astype(plain.dtype), "NCHW", layout)


def integer_step(table: np.ndarray) -> tuple[int, int] | None:
    """(multiply, divide) with table[x] == x * multiply // divide for all x, one of them 1; None if there is none."""
    x = np.arange(table.size)
    top = int(table[-1]) if table.size else 0
    for divide in range(1, table.size + 1):
        if np.array_equal(table, x // divide):
            return 1, divide
        if x[-1] // divide < top:
            break
    multiply = math.ceil(top / max(1, table.size - 1)) if table.size > 1 else 1
    return (multiply, 1) if np.array_equal(table, x * multiply) else None
