"""Clipping thresholds of an activation that leave the least error in 8 bits.

The cut is chosen by the relative entropy between the distribution of the values and that of their quantized form (the
method of "8-bit Inference with TensorRT", Migacz, GTC 2017).
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_BINS, _LEVELS = 2048, 128
_SHARE = 0.99999


def kl_threshold(values: Array) -> float:
    """The magnitude at which `values` are cut off; 1 where all are zero."""
    magnitudes = np.abs(np.asarray(values, "float64")).ravel()
    magnitudes = magnitudes[magnitudes > 0]  # zeros, which a relu makes many of, are exact at any cut
    if not magnitudes.size:
        return 1.0
    largest = float(magnitudes.max())
    counts, edges = np.histogram(magnitudes, bins=_BINS, range=(0.0, largest))
    cuts = range(_LEVELS, _BINS + 1, 16)
    best = min(cuts, key=lambda cut: _divergence(counts, cut))
    return float(edges[best])


def percentile_threshold(values: Array) -> float:
    """The magnitude that all but one of 100,000 of `values` stay below; 1 where all are zero."""
    magnitudes = np.abs(np.asarray(values, "float64")).ravel()
    position = min(int(magnitudes.size * _SHARE), magnitudes.size - 1)
    return float(np.partition(magnitudes, position)[position]) or 1.0


def _divergence(counts: Array, cut: int) -> float:
    """The relative entropy of the first `cut` bins, with all beyond in the last, to their form in 128 levels."""
    exact = counts[:cut].astype("float64")
    whole = exact.copy()
    whole[-1] += counts[cut:].sum()
    level = np.arange(cut) * _LEVELS // cut
    used = exact > 0
    sums, sizes = np.bincount(level, exact, _LEVELS), np.bincount(level, used, _LEVELS)
    coarse = np.where(used, (sums / np.maximum(sizes, 1))[level], 0.0)
    p, q = whole / whole.sum(), coarse / max(coarse.sum(), 1e-12)
    inside = p > 0
    return float(np.sum(p[inside] * np.log(p[inside] / np.maximum(q[inside], 1e-9))))
