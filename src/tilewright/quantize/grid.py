"""Grids of codes of 1 to 8 bits: symmetric, with a zero point, or bipolar; and the ranges that fit values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.errors import InputError
from tilewright.quantize.ranges import Array, Histogram

KINDS = ("symmetric", "asymmetric", "bipolar")
#: Ends of ranges that are tried, as shares of the extreme values: few bits keep little of a tail.
_SHARES = np.linspace(0.02, 1.0, 50)


@dataclass(frozen=True)
class Grid:
    """The codes of `bits` bits.

    symmetric   -(2**(bits-1) - 1) … 2**(bits-1) - 1
    asymmetric  0 … 2**bits - 1, with a zero point
    bipolar     the odd numbers -(2**bits - 1) … 2**bits - 1: each bit counts as +1 or -1 times its position
    """

    bits: int
    kind: str

    def __post_init__(self) -> None:
        """Raise `InputError` for codes that there are not."""
        if not 1 <= self.bits <= 8:
            raise InputError(f"codes have 1 to 8 bits; got {self.bits}")
        if self.kind not in KINDS:
            raise InputError(f"codes are {', '.join(KINDS)}; got {self.kind!r}")
        if self.bits == 1 and self.kind == "symmetric":
            raise InputError("symmetric codes of 1 bit are zero only; use 'bipolar' (signs) or 'asymmetric'")

    @property
    def most(self) -> int:
        """The largest code."""
        return 2 ** (self.bits - 1) - 1 if self.kind == "symmetric" else 2**self.bits - 1

    @property
    def least(self) -> int:
        """The least code."""
        return 0 if self.kind == "asymmetric" else -self.most

    def codes(self, x: Array, scale: Array, zero: Array) -> Array:
        """The codes of float32 `x` less their zero point: whole numbers as float32, as `FakeQuantized` has them."""
        ratio = x / scale
        inside = np.maximum(np.minimum(ratio, np.float32(self.most) - zero), np.float32(self.least) - zero)
        if self.kind == "bipolar":
            return 2 * np.rint((inside + np.float32(self.most)) * np.float32(0.5)) - np.float32(self.most)
        return np.rint(inside)

    def range_of(self, low: Array, high: Array) -> tuple[Array, Array]:
        """(scales, zero points) float32 of the ranges from `low` to `high`, which are widened to hold zero."""
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        if self.kind == "asymmetric":
            scale = _positive((high - low) / self.most)
            return scale, np.clip(np.rint(-low / scale), 0, self.most).astype(np.float32)
        scale = _positive(np.maximum(high, -low) / self.most)
        return scale, np.zeros_like(scale)

    def of_weights(self, weight: Array) -> tuple[Array, Array]:
        """`range_of` all values of each channel of weights [channels, ...]; of one bit the mean magnitude."""
        flat = weight.reshape(len(weight), -1)
        if self.kind == "bipolar" and self.bits == 1:
            return self.fitted(flat)
        return self.range_of(flat.min(axis=1), flat.max(axis=1))

    def fitted(self, values: Array, counts: Array | None = None) -> tuple[Array, Array]:
        """(scales, zero points) of the least squared error of each row of `values`, of which `counts` are as many."""
        wide = values.astype(np.float64)
        if self.kind == "bipolar" and self.bits == 1:
            scale = _positive(np.average(np.abs(wide), axis=1, weights=counts))
            return scale, np.zeros_like(scale)
        best, least = self.range_of(wide.min(axis=1), wide.max(axis=1)), np.full(len(wide), np.inf)
        for share in _SHARES:
            tried = self.range_of(wide.min(axis=1) * share, wide.max(axis=1) * share)
            scale, zero = (part[:, None] for part in tried)
            square = (self.codes(values.astype(np.float32), scale, zero) * scale - wide) ** 2
            error = square.sum(axis=1) if counts is None else square @ counts
            best = np.where(error < least, tried[0], best[0]), np.where(error < least, tried[1], best[1])
            least = np.minimum(error, least)
        return best

    def fitted_to(self, histogram: Histogram) -> tuple[Array, Array]:
        """`fitted` to the values of a histogram: one scale and one zero point."""
        used = histogram.counts > 0
        if not histogram.limit:
            return np.ones(1, np.float32), np.zeros(1, np.float32)
        centers = histogram.centers[used].clip(histogram.least, histogram.largest)
        return self.fitted(centers[None], histogram.counts[used].astype(np.float64))


def _positive(scale: Array) -> Array:
    scale = np.asarray(scale, np.float32)
    return np.where(scale < np.finfo(np.float32).tiny, np.float32(1.0), scale)
