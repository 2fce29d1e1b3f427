"""The arithmetic of resampling one axis: which coordinates are read, and with what weights (ONNX `Resize`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Axis:
    """One resized axis: input and output extents, the scale, and the region of interest as fractions."""

    extent: int
    out: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    def is_identity(self, coordinates: str) -> bool:
        """True when every output element is the input element at the same position."""
        if coordinates == "tf_crop_and_resize" and (self.start, self.end) != (0.0, 1.0):
            return False
        return self.extent == self.out and abs(self.scale - 1.0) < 1e-6


def _half_pixel(axis: Axis, x: np.ndarray) -> np.ndarray:
    return (x + 0.5) / axis.scale - 0.5


def _align_corners(axis: Axis, x: np.ndarray) -> np.ndarray:
    return x * (axis.extent - 1) / (axis.out - 1) if axis.out > 1 else x * 0


def _crop(axis: Axis, x: np.ndarray) -> np.ndarray:
    if axis.out > 1:
        return axis.start * (axis.extent - 1) + x * (axis.end - axis.start) * (axis.extent - 1) / (axis.out - 1)
    return x * 0 + 0.5 * (axis.start + axis.end) * (axis.extent - 1)


def _symmetric(axis: Axis, x: np.ndarray) -> np.ndarray:
    adjustment = axis.out / (axis.scale * axis.extent)
    return axis.extent / 2 * (1 - adjustment) + _half_pixel(axis, x)


COORDINATES: dict[str, Callable[[Axis, np.ndarray], np.ndarray]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda axis, x: _half_pixel(axis, x) if axis.out > 1 else x * 0,
    "align_corners": _align_corners,
    "asymmetric": lambda axis, x: x / axis.scale,
    "tf_half_pixel_for_nn": lambda axis, x: (x + 0.5) / axis.scale,
    "tf_crop_and_resize": _crop,
}

#: How near to the middle of two elements a coordinate in float32 counts as it: 14 / 4 comes out as 3.4999998.
TIE = 1e-5

ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x.astype(np.float64) - 0.5 - TIE),
    "round_prefer_ceil": lambda x: np.floor(x.astype(np.float64) + 0.5 + TIE),
    "floor": np.floor,
    "ceil": np.ceil,
}


def source_coordinates(axis: Axis, coordinates: str, exact: bool = False) -> np.ndarray:
    """For each output position the (fractional) input position it samples, in float32 as onnxruntime computes it.

    In float64 where it is to be `exact`.
    """
    if exact:
        return COORDINATES[coordinates](axis, np.arange(axis.out, dtype=np.float64))
    scale, start, end = (float(np.float32(value)) for value in (axis.scale, axis.start, axis.end))
    narrow = replace(axis, scale=scale, start=start, end=end)
    return COORDINATES[coordinates](narrow, np.arange(axis.out, dtype=np.float32))


def outside(axis: Axis) -> np.ndarray:
    """The mask of output positions of a crop that sample beyond the input."""
    position = _crop(axis, np.arange(axis.out, dtype=np.float64))
    return (position < 0) | (position > axis.extent - 1)


def nearest_indices(axis: Axis, coordinates: str, rounding: str) -> np.ndarray:
    """For each output position the input element it copies."""
    picked = ROUNDINGS[rounding](source_coordinates(axis, coordinates))
    return np.clip(picked, 0, axis.extent - 1).astype(np.int64)


def _triangle(distance: np.ndarray, _: float) -> np.ndarray:
    return np.clip(1 - np.abs(distance), 0, 1)


def _cubic(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' cubic convolution kernel with parameter `a`."""
    t = np.abs(distance)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((t - 5) * t + 8) * t * a - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def weighted_taps(
    axis: Axis, coordinates: str, mode: str, cubic_a: float, exclude_outside: bool, antialias: bool, exact: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The elements that each output position is interpolated from, and their weights, both (out, taps).

    Elements beyond an edge count as the edge, or not at all.
    """
    kernel, radius = (_triangle, 1) if mode == "linear" else (_cubic, 2)
    stretch = min(axis.scale, 1.0) if antialias else 1.0
    position = source_coordinates(axis, coordinates, exact).astype(np.float64)
    reach = int(np.ceil(radius / stretch))
    offsets = np.arange(-reach, reach + 1) if antialias else np.arange(1 - radius, radius + 1)
    taps = np.floor(position)[:, None].astype(np.int64) + offsets[None, :]
    weights = kernel((taps - position[:, None]) * stretch, cubic_a)
    if exclude_outside:
        weights = np.where((taps < 0) | (taps >= axis.extent), 0.0, weights)
    if exclude_outside or antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    positions = np.clip(taps, 0, axis.extent - 1)
    return _without_zeros(positions, weights) if antialias else (positions, weights)


def _without_zeros(positions: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The taps of each row that count, as many as the row with most has; others repeat one that does."""
    order = np.argsort(weights == 0, axis=1, kind="stable")
    count = max(1, int((weights != 0).sum(axis=1).max(initial=0)))
    positions, weights = (np.take_along_axis(array, order, 1)[:, :count] for array in (positions, weights))
    return np.where(weights == 0, positions[:, :1], positions), weights


def interpolated(data: np.ndarray, index: int, positions: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`data` (floats) with axis `index` interpolated from `weighted_taps`; no other elements count, NaN included."""
    shape = [-1 if axis == index else 1 for axis in range(data.ndim)]
    with np.errstate(invalid="ignore"):
        parts = [
            np.take(data, position, index) * weight.reshape(shape).astype(data.dtype)
            for position, weight in zip(positions.T, weights.T)
        ]
        return np.sum(parts, axis=0)
