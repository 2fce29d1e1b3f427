"""Sums of gradients over the ranks: a bucket's gradients in one buffer, exchanged whole, in 16 bits or as its largest.

A bucket of n ranks has n parts; rank r sums part r of all ranks, in their order, and all collect the sums. With a
sharded optimizer rank r keeps its sum, updates its part of the parameters, and all collect those.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.memory import ALIGNMENT, Array, aligned_empty, round_up
from tilewright.training.distribute.ranks import Ranks


@dataclass(frozen=True)
class TopK:
    """Gradients cut to the `share` of their elements that are largest; the others are added to the next step's.

    Error feedback (Stich et al., Sparsified SGD with Memory, 2018).
    """

    share: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"a share of {self.share} of the gradients cannot be kept; it is above 0 and at most 1")


#: None for whole gradients, "bf16" for gradients rounded to bfloat16, or the largest of them.
Compression = str | TopK | None


class Bucket:
    """The memory of one bucket: `flat` [ranks, part], of which `views` are the arrays, each on a cache line."""

    def __init__(self, shapes: Sequence[tuple[int, ...]], ranks: int) -> None:
        step = ALIGNMENT // np.dtype(np.float32).itemsize
        offsets, end = [], 0
        for shape in shapes:
            offsets.append(end)
            end += round_up(max(math.prod(shape), 1), step)
        self.part = round_up(-(-end // ranks), step)
        self._shapes, self._offsets = shapes, offsets
        self.flat = self.empty(ranks)
        self.views = self.of(self.flat)

    def empty(self, ranks: int) -> Array:
        """Zeros of the form of `flat`: what no array covers must not differ between ranks."""
        flat = aligned_empty((ranks, self.part), np.dtype(np.float32))
        flat[:] = 0
        return flat

    def of(self, flat: Array) -> list[Array]:
        """The arrays within a buffer of the form of `flat`."""
        line = flat.reshape(-1)
        return [
            line[offset : offset + math.prod(shape)].reshape(shape)
            for offset, shape in zip(self._offsets, self._shapes, strict=True)
        ]


class Reducer:
    """The mean of a bucket's gradients over the ranks, into its own memory; with `shard` its own part alone.

    `rest` are the elements that were not sent yet, where gradients are cut.
    """

    def __init__(self, bucket: Bucket, ranks: Ranks, compression: Compression, shard: bool) -> None:
        """Raises `InputError` for an unknown compression."""
        if compression not in (None, "bf16") and not isinstance(compression, TopK):
            raise InputError(f"compression={compression!r}: there are 'bf16', TopK(share) and None")
        self._bucket, self._ranks, self._compression, self._shard = bucket, ranks, compression, shard
        wire = np.dtype(ml_dtypes.bfloat16 if compression == "bf16" else np.float32)
        self._count = 0
        if isinstance(compression, TopK):
            self._count = max(1, int(compression.share * bucket.flat.size))
            self.rest = np.zeros(bucket.flat.shape, np.float32)
            self._received = np.empty((ranks.size, 2, self._count), np.float32)
        else:
            self._received = np.empty(bucket.flat.shape, wire)

    def __call__(self) -> Array:
        """This rank's part of the means [part]; without `shard` the bucket's memory has them all."""
        return self._largest() if self._count else self._whole()

    def _whole(self) -> Array:
        flat, ranks, wire = self._bucket.flat, self._ranks, self._received.dtype
        ranks.exchange(flat.astype(wire, copy=False), self._received)
        own = self._received[0].astype(np.float32)
        for part in self._received[1:]:
            own += part.astype(np.float32, copy=False)
        own *= np.float32(1 / ranks.size)
        if not self._shard:
            sums = own.astype(wire, copy=False)
            into = flat if wire == np.float32 else self._received
            ranks.gather(sums, into)
            if into is not flat:
                np.copyto(flat, into)
        return own

    def _largest(self) -> Array:
        self.rest += self._bucket.flat
        line, count = self.rest.reshape(-1), self._count
        chosen = np.sort(np.argpartition(np.abs(line), line.size - count)[line.size - count :]).astype(np.int32)
        own = np.stack([chosen.view(np.float32), line[chosen]])
        line[chosen] = 0
        self._ranks.gather(own, self._received)
        flat = self._bucket.flat
        flat[:] = 0
        for positions, values in self._received:
            flat.reshape(-1)[positions.view(np.int32)] += values
        flat *= np.float32(1 / self._ranks.size)
        return flat[self._ranks.rank].copy()
