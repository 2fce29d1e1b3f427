"""NumPy references of statistics of all values of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: The least limit of bins that is not zero: the bins to one are a float32 for any number of them.
LEAST_LIMIT = 2.0**-100


def extremes(x: Array) -> Array:
    """The least value, the largest, and the largest magnitude, float32[3]; NaN counts in the last one alone."""
    values = x[~np.isnan(x)]
    magnitude = np.abs(x).max(initial=0) if x.size else 0.0
    return np.array([values.min(initial=np.inf), values.max(initial=-np.inf), magnitude], np.float32)


def histogram(x: Array, ends: Array, limit: Array, bins: int) -> Array:
    """Counts int32[bins] of values in bins of equal width up to a power of two on either side of zero."""
    most = max(float(limit), power_of_two(float(ends[2])), LEAST_LIMIT if ends[2] > 0 else 0.0)
    scale = np.float32(bins / 2 / most) if most > 0 else np.float32(0)
    with np.errstate(all="ignore"):
        position = x.reshape(-1) * scale + np.float32(bins // 2)
    inside = np.where(position > 0, np.minimum(position, np.float32(bins - 1)), np.float32(0))
    return np.bincount(inside.astype(np.int64), minlength=bins).astype(np.int32)


def power_of_two(magnitude: float) -> float:
    """The least power of two that is no less than `magnitude`; zero for zero."""
    return float(2.0 ** np.ceil(np.log2(magnitude))) if magnitude > 0 else 0.0
