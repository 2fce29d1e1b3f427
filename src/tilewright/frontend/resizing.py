"""Resizing of images with channels last or first, as TensorFlow and Keras do it: pixel centres at half-integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tilewright.errors import UnsupportedError
from tilewright.frontend.idioms import (
    cast,
    channels_first,
    channels_last,
    constant,
    dtype_of,
    move_axis,
    rank_of,
    shape_of,
)
from tilewright.frontend.product import matmul
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
        plain = channels_first(images) if last else images
        made: Expr = op.image.resize2d(
            plain, size=(height, width), method=_PLAIN[method],
            rounding_method="round_prefer_ceil" if method == "nearest" else "",
        )  # fmt: skip
        return channels_last(made) if last else made
    rank = rank_of(images)
    first = rank - 3 if last else rank - 2
    dtype = dtype_of(images)
    value = cast(images, "float32") if dtype != "float64" else images
    for axis, extent in ((first, height), (first + 1, width)):
        before = shape_of(images)[axis]
        if not isinstance(before, int):
            raise UnsupportedError(f"resizing by {method} of an axis of open extent; give it with input_shapes")
        weights = resize_matrix(before, extent, method, antialias)
        rows = matmul(move_axis(value, axis, rank - 1), constant(weights.T, dtype_of(value)))
        value = move_axis(rows, rank - 1, axis)
    return cast(value, dtype)


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
    "bilinear": (lambda x: np.maximum(1 - np.abs(x), 0.0), 1.0),
    "bicubic": (_cubic(0.0, 0.5), 2.0),
    "mitchellcubic": (_cubic(1 / 3, 1 / 3), 2.0),
    "gaussian": (lambda x: np.where(np.abs(x) < 1.5, np.exp(-0.5 * (2 * x) ** 2), 0.0), 1.5),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
}


def resize_matrix(before: int, after: int, method: str, antialias: bool) -> np.ndarray:
    """[after, before]: the share that each element of an axis has in each of the resized one; rows add up to 1."""
    if method not in _KERNELS:
        raise UnsupportedError(f"resizing by {method!r}; there are {', '.join(_KERNELS)}")
    kernel, _ = _KERNELS[method]
    scale = before / after
    width = max(scale, 1.0) if antialias else 1.0
    centres = (np.arange(after) + 0.5) * scale
    places = np.arange(before) + 0.5
    weights = kernel((centres[:, None] - places[None, :]) / width)
    total = weights.sum(axis=1, keepdims=True)
    return np.where(np.abs(total) > 1e-8, weights / np.where(total == 0, 1, total), 0.0)
