"""Ranges of tensors: four methods, from histograms of their values; and the codes that a range means.

minmax      the least and the largest value
percentile  what all but one of ten thousand values lie within, at either end
mse         the range that leaves the least squared error
entropy     the range whose codes have the distribution that differs least from the values' (Migacz, "8-bit Inference
            with TensorRT", GTC 2017)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.topi.reference.histogram import LEAST_LIMIT, power_of_two

Array = np.ndarray[Any, Any]

#: Codes by the name of their type: the least and the largest.
CODES = {"uint8": (0, 255), "int8": (-128, 127)}
#: Codes of weights are symmetric: minus 128 is not used.
WEIGHT_CODES = (-127, 127)
#: Bins of a histogram: 32 for each of 256 codes where values have one sign, 16 where they have both.
BINS = 8192
#: The share of values that "percentile" cuts off at each end.
_CUT = 1e-4
#: Ends of ranges that "mse" and "entropy" try, as shares of the extreme value.
_SHARES = np.linspace(0.2, 1.0, 41)
#: Ends of ranges of weights that "mse" tries, as shares of the largest.
_WEIGHT_SHARES = np.linspace(0.5, 1.0, 26)

#: The largest code of a bias: it leaves half of int32 to the products.
_LARGEST_BIAS = 2.0**30


@dataclass(frozen=True)
class Codes:
    """The meaning of codes of `dtype`: scale * (code - zero_point)."""

    scale: float
    zero_point: int
    dtype: str


class Histogram:
    """Counts of values in bins of equal width around zero; the range doubles as larger values come."""

    def __init__(self) -> None:
        self.counts = np.zeros(BINS, np.int64)
        self.limit = 0.0
        self.least, self.largest = np.inf, -np.inf

    def merge(self, least: float, largest: float, counts: Array | None = None) -> None:
        """Enter the extreme values of a tensor, and the counts of its values at the limit that both have together."""
        if least > largest:  # of no values
            return
        self.least, self.largest = min(self.least, least), max(self.largest, largest)
        self._widen(max(-least, largest))
        if counts is not None:
            self.counts += counts

    def _widen(self, magnitude: float) -> None:
        """Make the limit a power of two that is no less than `magnitude`; bins merge in pairs."""
        if magnitude <= self.limit:
            return
        limit = max(power_of_two(magnitude), LEAST_LIMIT)
        while 0.0 < self.limit < limit:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.concatenate([np.zeros(BINS // 4, np.int64), pairs, np.zeros(BINS // 4, np.int64)])
            self.limit *= 2.0
        self.limit = limit

    @property
    def centers(self) -> Array:
        """The middle of each bin."""
        return (np.arange(BINS) + 0.5 - BINS // 2) * (2 * self.limit / BINS)


def codes_of(low: float, high: float, dtype: str) -> Codes:
    """The codes of the range from `low` to `high`, which is widened to hold zero: zero has a code of its own."""
    least, most = CODES[dtype]
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / (most - least)))
    if scale < np.finfo(np.float32).tiny:
        return Codes(1.0, 0, dtype)
    return Codes(scale, int(np.clip(np.rint(least - low / scale), least, most)), dtype)


def _minmax(histogram: Histogram, dtype: str) -> tuple[float, float]:
    return histogram.least, histogram.largest


def _percentile(histogram: Histogram, dtype: str) -> tuple[float, float]:
    share = np.cumsum(histogram.counts) / max(histogram.counts.sum(), 1)
    width = 2 * histogram.limit / BINS
    low = (int(np.searchsorted(share, _CUT, side="right")) - BINS // 2) * width
    high = (int(np.searchsorted(share, 1.0 - _CUT)) + 1 - BINS // 2) * width
    return max(low, histogram.least), min(high, histogram.largest)


def _candidates(histogram: Histogram) -> list[tuple[float, float]]:
    """Pairs of ends, both cut off by the same share."""
    return [(min(histogram.least, 0.0) * share, max(histogram.largest, 0.0) * share) for share in _SHARES]


def _mse(histogram: Histogram, dtype: str) -> tuple[float, float]:
    """Both ends together, then each alone with the other held."""
    used = histogram.counts > 0
    values, counts = histogram.centers[used], histogram.counts[used].astype(np.float64)

    def error(ends: tuple[float, float]) -> float:
        return float(counts @ (as_floats(values, codes_of(ends[0], ends[1], dtype)) - values) ** 2)

    _, high = min(_candidates(histogram), key=error)
    low, _ = min(((min(histogram.least, 0.0) * share, high) for share in _SHARES), key=error)
    return min(((low, max(histogram.largest, 0.0) * share) for share in _SHARES), key=error)


def _entropy(histogram: Histogram, dtype: str) -> tuple[float, float]:
    used = histogram.counts > 0
    used[BINS // 2] = False  # zeros, of which a relu makes many, are exact whatever the range
    values, counts = histogram.centers[used], histogram.counts[used].astype(np.float64)
    if not counts.size:
        return _minmax(histogram, dtype)
    return min(_candidates(histogram), key=lambda ends: _divergence(values, counts, codes_of(ends[0], ends[1], dtype)))


def _divergence(values: Array, counts: Array, codes: Codes) -> float:
    """The relative entropy of the clipped values to their codes, each spread over the bins that it stands for."""
    code = np.rint(values / codes.scale) + codes.zero_point
    least, most = CODES[codes.dtype]
    inside = (code >= least) & (code <= most)
    index = (np.clip(code, least, most) - least).astype(np.int64)
    kept = counts * inside
    spread = np.bincount(index, kept, most - least + 1) / np.maximum(np.bincount(index, inside, most - least + 1), 1)
    coarse = spread[index] * inside
    exact = kept.copy()
    if not inside.all():  # what is cut off counts for the outermost bins that are left
        bounds = np.flatnonzero(inside)
        if not bounds.size:
            return np.inf
        exact[bounds[0]] += counts[: bounds[0]].sum()
        exact[bounds[-1]] += counts[bounds[-1] + 1 :].sum()
    p, q = exact / exact.sum(), coarse / coarse.sum()
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / np.maximum(q[seen], np.finfo(np.float32).tiny))))


_METHODS: dict[str, Callable[[Histogram, str], tuple[float, float]]] = {
    "minmax": _minmax,
    "percentile": _percentile,
    "mse": _mse,
    "entropy": _entropy,
}
METHODS = tuple(_METHODS)


def range_of(histogram: Histogram, method: str, dtype: str) -> tuple[float, float]:
    """The range by `method`. Raises `InputError` for another name."""
    if method not in _METHODS:
        raise InputError(f"there is no method {method!r}; methods are: {', '.join(METHODS)}")
    return _METHODS[method](histogram, dtype) if histogram.limit else (0.0, 0.0)


def as_floats(values: Array, codes: Codes) -> Array:
    """`values` as their codes stand for them."""
    least, most = CODES[codes.dtype]
    return (np.clip(np.rint(values / codes.scale) + codes.zero_point, least, most) - codes.zero_point) * codes.scale


def weight_scales(weight: Array, method: str) -> Array:
    """A scale for each output channel of weights [channels, ...]: float32[channels].

    The largest magnitude has the largest code, but for "mse", which looks for the least squared error.
    """
    flat = weight.reshape(len(weight), -1).astype(np.float64)
    top = np.abs(flat).max(axis=1)
    best = _scale(top)
    if method != "mse":
        return best
    least = _squared_error(flat, best)
    for share in _WEIGHT_SHARES[:-1]:
        scale = _scale(top * share)
        error = _squared_error(flat, scale)
        best, least = np.where(error < least, scale, best), np.minimum(error, least)
    return best


def scales_for_bias(scales: Array, bias: Array, data_scale: float) -> Array:
    """Scales of weights that are large enough for int32 codes of the bias, at the scale of the sums.

    A channel whose weights have died in training, with a bias that has not, would lose the bias: of 128 channels of a
    layer of MLPerf Tiny's vww 109 have weights of 1e-30.
    """
    return np.maximum(scales, np.asarray(np.abs(bias) / (_LARGEST_BIAS * data_scale), np.float32))


def _scale(top: Array) -> Array:
    scale = (top / WEIGHT_CODES[1]).astype(np.float32)
    return np.where(scale < np.finfo(np.float32).tiny, np.float32(1.0), scale)


def _squared_error(flat: Array, scale: Array) -> Array:
    column = scale[:, None].astype(np.float64)
    return np.asarray(((np.clip(np.rint(flat / column), *WEIGHT_CODES) * column - flat) ** 2).sum(axis=1))


def weight_codes(weight: Array, scales: Array) -> Array:
    """Weights [channels, ...] as int8 codes of the scales of their channels."""
    column = scales.reshape(-1, *(1,) * (weight.ndim - 1)).astype(np.float32)
    return np.clip(np.rint(weight.astype(np.float32) / column), *WEIGHT_CODES).astype(np.int8)


def bias_codes(bias: Array, correction: Sequence[float], unit: Array) -> Array:
    """A bias [channels] with its correction as int32 codes of `unit`, the scale of data times that of weights."""
    total = bias.astype(np.float32) + np.asarray(correction or 0.0, np.float32)
    limits = np.iinfo(np.int32)
    return np.clip(np.rint(total.astype(np.float64) / unit), limits.min, limits.max).astype(np.int32)
