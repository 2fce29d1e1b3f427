"""One-sided upper confidence bounds: what a loss measured on some samples can be on others of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

#: How often a bound is to hold.
LEVEL = 0.95
#: Points of an angle that a quantile is read from, and halvings of an interval: more than float64 tells apart in use.
_POINTS, _HALVINGS = 200_001, 60
#: Degrees of freedom beyond which Student's distribution is the normal one to three digits.
_MOST_FREEDOM = 10_000


def share_bound(hits: int, count: int) -> float:
    """The bound of a share, `hits` of `count` independent samples (Clopper and Pearson, 1934).

    share_bound(0, 598) is 0.005: the least number of samples without a fault that shows 0.5 %.
    """
    if hits >= count:
        return 1.0
    steps = np.arange(1, hits + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((count - steps + 1) / steps))])
    seen = np.arange(hits + 1)
    low, high = hits / count, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        chance = np.exp(ways + seen * np.log(middle or 1e-300) + (count - seen) * np.log1p(-middle)).sum()
        low, high = (low, middle) if chance <= 1 - LEVEL else (middle, high)
    return high


def ratio_bound(parts: Sequence[float], wholes: Sequence[float]) -> float:
    """The bound of sum(parts) / sum(wholes), of a pair a sample: Student's, of the ratio as its linear part.

    Infinity for a single sample, which says nothing of others.
    """
    count, over = len(parts), float(np.sum(wholes))
    if not over:
        return float(np.sum(parts) > 0)
    if count < 2:
        return float("inf")
    ratio = float(np.sum(parts)) / over
    spread = np.asarray(parts) - ratio * np.asarray(wholes)
    return (
        ratio + _student(min(count - 1, _MOST_FREEDOM)) * float(np.sqrt(np.sum(spread**2) * count / (count - 1))) / over
    )


@cache
def _student(freedom: int) -> float:
    """The quantile of Student's distribution at `LEVEL`: its density is a power of a cosine over atan(t / sqrt(n))."""
    angles = np.linspace(-np.pi / 2, np.pi / 2, _POINTS)
    below = np.cumsum(np.cos(angles) ** (freedom - 1))
    return float(np.sqrt(freedom) * np.tan(angles[np.searchsorted(below, LEVEL * below[-1])]))
