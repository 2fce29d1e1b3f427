"""Reference scatters in NumPy; sums of floats run in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_COMBINE: dict[str, Callable[..., None]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


def _put(out: np.ndarray, where: tuple[np.ndarray, ...], updates: np.ndarray, mode: str) -> np.ndarray:
    """`out` after all `updates`, one by one where duplicates would have no defined order within one assignment."""
    if mode == "add" and out.dtype.kind == "f":
        wide = out.astype(np.float64)
        np.add.at(wide, where, updates)
        return wide.astype(out.dtype)
    if mode in _COMBINE:
        _COMBINE[mode](out, where, updates)
        return out
    for index in np.ndindex(where[0].shape):
        out[tuple(axis[index] for axis in where)] = updates[index]
    return out


def scatter_elements(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, axis: int, mode: str) -> np.ndarray:
    """`data` with updates[i, k, …] at [i, indices[i, k, …], …] along `axis`; negative indices count from the back."""
    grid: list[np.ndarray] = list(np.indices(indices.shape))
    grid[axis] = indices % data.shape[axis]
    return _put(data.copy(), tuple(grid), updates, mode)


def scatter_nd(data: np.ndarray, indices: np.ndarray, updates: np.ndarray, mode: str) -> np.ndarray:
    """`data` with slices of `updates` at the coordinates in the first axis of `indices`."""
    where = tuple(axis % size for axis, size in zip(indices, data.shape))
    if not where:
        return _put(data.copy()[None], (np.zeros((1,), np.int64),), updates[None], mode)[0]
    return _put(data.copy(), where, updates, mode)
