"""Reference gathers and slices in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.topi.shapes import slice_bounds


def strided_slice(
    x: np.ndarray,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> np.ndarray:
    """Python slicing along `axes`."""
    index = []
    for start, step, count in slice_bounds(x.shape, begin, end, strides, axes):
        stop = start + step * count
        index.append(slice(start, stop if stop >= 0 else None, step) if count else slice(0, 0))
    return np.asarray(x[tuple(index)], order="C")


def normalized_indices(indices: np.ndarray, size: int, mode: str) -> np.ndarray:
    """Indices into an axis of `size`: ``"wrap"`` modulo, ``"fast"`` unchecked, else clipped.

    Negative ones of ``"from_back"`` count from the end before that.
    """
    wide = indices.astype(np.int64)
    if mode == "wrap":
        return wide % size
    if mode == "fast":
        return wide
    if mode == "from_back":
        wide = np.where(wide < 0, wide + size, wide)
    return np.clip(wide, 0, size - 1)


def take(x: np.ndarray, indices: np.ndarray, axis: int | None, mode: str = "clip") -> np.ndarray:
    """Slices of `x` along `axis` (of the flattened `x` if None) at `indices`."""
    if axis is None:
        x, axis = x.reshape(-1), 0
    return np.take(x, normalized_indices(indices, x.shape[axis], mode), axis=axis)


def gather(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """out[i, j, …] = x[i, …, indices[i, j, …], …] with the index on `axis` (ONNX GatherElements)."""
    where: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    where[axis] = normalized_indices(indices, x.shape[axis], "from_back")
    return x[tuple(where)]


def gather_nd(x: np.ndarray, indices: np.ndarray, batch_dims: int = 0) -> np.ndarray:
    """Slices of `x` at the coordinates in the FIRST axis of `indices`, after `batch_dims` shared leading axes."""
    coordinates = [normalized_indices(c, x.shape[batch_dims + i], "from_back") for i, c in enumerate(indices)]
    rank = indices.ndim - 1
    batch = [np.arange(x.shape[d]).reshape([-1 if k == d else 1 for k in range(rank)]) for d in range(batch_dims)]
    return x[(*batch, *coordinates)]


def one_hot(
    indices: np.ndarray, on_value: np.ndarray, off_value: np.ndarray, depth: int, axis: int, dtype: Any
) -> np.ndarray:
    """`on_value` where the new `axis` of size `depth` equals the index (negatives from the back), else `off_value`."""
    position = axis if axis >= 0 else indices.ndim + 1 + axis
    wanted = np.expand_dims(np.where(indices < 0, indices + depth, indices), position)
    shape = [1] * (indices.ndim + 1)
    shape[position] = depth
    hit = wanted == np.arange(depth).reshape(shape)
    return np.where(hit, on_value, off_value).astype(dtype)


def depth_to_space(x: np.ndarray, block_size: int, mode: str = "DCR") -> np.ndarray:
    """[N, C, H, W] to [N, C/b², H·b, W·b]; the channel holds (row, column, depth) or, for CRD, depth first."""
    n, c, h, w = x.shape
    b = block_size
    if mode == "DCR":
        parts = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return np.asarray(parts, order="C").reshape(n, c // (b * b), h * b, w * b)


def space_to_depth(x: np.ndarray, block_size: int) -> np.ndarray:
    """The inverse of `depth_to_space` in DCR mode."""
    n, c, h, w = x.shape
    b = block_size
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return np.asarray(parts, order="C").reshape(n, c * b * b, h // b, w // b)
