"""Resizing of images with channels last or first, as TensorFlow and Keras do it: pixel centres at half-integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend import idioms
from tilewright.frontend.builders.product import matmul
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_PLAIN = {"nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}


def resize(images: Expr, size: Sequence[int], method: str, antialias: bool = False, last: bool = True) -> Expr:
    """`images` [N, H, W, C] or [N, C, H, W] in `size` (height, width); numbers are floats unless `method` is nearest.

    Methods: nearest, bilinear, bicubic, lanczos3, lanczos5, gaussian, mitchellcubic; with `antialias` the kernel is
    widened where the image shrinks.
    """
    height, width = (int(extent) for extent in size)
    if method in _PLAIN and not (antialias and method != "nearest") and method != "bicubic":
        plain = idioms.channels_first(images) if last else images
        made: Expr = op.image.resize2d(
            plain, size=(height, width), method=_PLAIN[method],
            rounding_method="round_prefer_ceil" if method == "nearest" else "",
        )  # fmt: skip
        return idioms.channels_last(made) if last else made
    first = idioms.rank_of(images) - (3 if last else 2)

    def matrix(before: int, after: int) -> np.ndarray:
        if method == "bicubic" and not antialias:
            return cubic_matrix(before, after, corners=False, half=True)
        return resize_matrix(before, after, method, antialias)

    rows, columns = extents(images, first, method)
    return by_matrices(images, first, (matrix(rows, height), matrix(columns, width)))


def extents(images: Expr, first: int, method: str) -> tuple[int, int]:
    """Those of the axis `first` and of the next, which must be known."""
    rows, columns = idioms.shape_of(images)[first : first + 2]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise UnsupportedError(f"resizing by {method} of a symbolic dimension; fix it with input_shapes")
    return rows, columns


def by_matrices(images: Expr, first: int, sides: Sequence[np.ndarray]) -> Expr:
    """The axis `first` and those behind it, each multiplied by the matrix [after, before] of it."""
    rank, dtype = idioms.rank_of(images), idioms.dtype_of(images)
    value = idioms.cast(images, "float32") if dtype != "float64" else images
    for axis, weights in enumerate(sides, first):
        rows = matmul(idioms.move_axis(value, axis, rank - 1), idioms.constant(weights.T, idioms.dtype_of(value)))
        value = idioms.move_axis(rows, rank - 1, axis)
    return idioms.cast(value, dtype)


def _lanczos(radius: int) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    def kernel(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < radius, np.sinc(x) * np.sinc(x / radius), 0.0)

    return kernel, float(radius)


def _cubic(a: float, b: float) -> Callable[[np.ndarray], np.ndarray]:
    """The cubic of Mitchell and Netravali (1988) by its parameters B and C."""

    def kernel(x: np.ndarray) -> np.ndarray:
        x = np.abs(x)
        near = ((12 - 9 * a - 6 * b) * x**3 + (-18 + 12 * a + 6 * b) * x**2 + (6 - 2 * a)) / 6
        far = ((-a - 6 * b) * x**3 + (6 * a + 30 * b) * x**2 + (-12 * a - 48 * b) * x + (8 * a + 24 * b)) / 6
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))

    return kernel


_KERNELS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "nearest": (lambda x: np.where(np.abs(x) <= 0.5, 1.0, 0.0), 0.5),
    "bilinear": (lambda x: np.maximum(1 - np.abs(x), 0.0), 1.0), "bicubic": (_cubic(0.0, 0.5), 2.0),
    "mitchellcubic": (_cubic(1 / 3, 1 / 3), 2.0),
    "gaussian": (lambda x: np.where(np.abs(x) < 1.5, np.exp(-0.5 * (2 * x) ** 2), 0.0), 1.5), "lanczos1": _lanczos(1),
    "lanczos3": _lanczos(3), "lanczos5": _lanczos(5),
}  # fmt: skip


def resize_matrix(
    before: int, after: int, method: str, antialias: bool, scale: float | None = None, shift: float = 0.0
) -> np.ndarray:
    """[after, before]: the share that each element of an axis has in each of the resized one; rows add up to 1.

    A step is 1 / `scale`, by default so that the axis is filled; `shift` says where they begin. Rows outside
    are 0.
    """
    if method not in _KERNELS:
        raise UnsupportedError(f"resizing by {method!r}; there are {', '.join(_KERNELS)}")
    kernel, _ = _KERNELS[method]
    kind: Any = np.float64 if scale is None else np.float32  # kernels that end abruptly depend on the rounding
    step = kind(before / after) if scale is None else kind(1) / kind(scale)
    width = max(step, kind(1)) if antialias else kind(1)
    centres = (np.arange(after) + 0.5).astype(kind) * step - step * kind(shift)
    positions = (np.arange(before) + 0.5).astype(kind)
    weights = kernel((centres[:, None] - positions[None, :]) / width)
    weights = np.where((centres >= 0) & (centres <= before), weights.T, 0.0).T
    total = weights.sum(axis=1, keepdims=True)
    return np.where(np.abs(total) > 1e-8, weights / np.where(total == 0, 1, total), 0.0)


def area_matrix(before: int, after: int) -> np.ndarray:
    """[after, before]: the part of each element of an axis in the stretch that becomes one of the resized axis."""
    begins = np.arange(after)[:, None] * (before / after)
    positions = np.arange(before)[None, :]
    overlap = np.minimum(begins + before / after, positions + 1) - np.maximum(begins, positions)
    return np.maximum(overlap, 0.0) * (after / before)


def cubic_matrix(before: int, after: int, corners: bool, half: bool) -> np.ndarray:
    """[after, before] as TensorFlow's ResizeBicubic has it, whose kernel is a table of 1024 steps.

    With pixel centres at half-integers elements outside count nothing; without, they are those at the border.
    """
    step = (before - 1) / (after - 1) if corners and after > 1 else before / after
    centres = (np.arange(after) + 0.5) * step - 0.5 if half else np.arange(after) * step
    floor = np.floor(centres).astype(int)
    part = np.rint((centres - floor) * 1024) / 1024
    kernel = _cubic(0.0, 0.5 if half else 0.75)
    weights = np.zeros((after, before))
    for near in range(-1, 3):
        positions, shares = floor + near, kernel(part - near)
        inside = (positions >= 0) & (positions < before)
        shares = np.where(inside, shares, 0.0) if half else shares
        np.add.at(weights, (np.arange(after), np.clip(positions, 0, before - 1)), shares)
    return weights / weights.sum(axis=1, keepdims=True) if half else weights
