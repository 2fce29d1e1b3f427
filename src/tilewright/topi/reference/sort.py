"""Reference sorting in NumPy."""

from __future__ import annotations

import numpy as np


def argsort(x: np.ndarray, axis: int, ascending: bool) -> np.ndarray:
    """Positions that sort `x` along `axis`, equal elements in order, NaN as the greatest."""
    if ascending:
        return np.argsort(x, axis=axis, kind="stable")
    # Descending and stable: sort the reversed row, and read it backwards.
    last = x.shape[axis] - 1
    return last - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


def searchsorted(rows: np.ndarray, values: np.ndarray, right: bool) -> np.ndarray:
    """The insertion index of each of `values` in the sorted last axis of `rows`."""
    side = "right" if right else "left"
    if rows.ndim == 1:
        return np.searchsorted(rows, values, side)  # type: ignore[call-overload]
    found = np.empty(values.shape, np.int64)
    for position in np.ndindex(values.shape[:-1]):
        found[position] = np.searchsorted(rows[position], values[position], side)  # type: ignore[call-overload]
    return found
