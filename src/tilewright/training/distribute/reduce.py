"""Sums of gradients over the ranks: a bucket's gradients in one buffer, exchanged whole, in 16 bits or as its largest.

A bucket of n ranks has n parts; rank r sums part r of all ranks, in their order, and all collect the sums. With a
sharded optimizer rank r keeps its sum, updates its part of the parameters, and all collect those. Parts go in pieces:
while one is summed up the next arrives, and its sum leaves behind the pieces that are still to be sent, so that the
link carries bytes in both directions from the first to the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.memory import ALIGNMENT, Array, aligned_empty, round_up
from tilewright.training.distribute.ranks import Message, Ranks


@dataclass(frozen=True)
class TopK:
    """Gradients cut to the `share` of their elements that are largest; the others are added to the next step's.

    Error feedback (Stich et al., Sparsified SGD with Memory, 2018).
    """

    share: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(f"a share of {self.share} of the gradients cannot be kept; it is above 0 and at most 1")


#: Bytes of a piece at most, of which a processor's cache holds the summands, and at least, so that handing one to an
#: engine takes less time than a link of 10 Gbit/s to carry it; and the pieces of a part between the two.
_MOST, _LEAST, _PIECES = 1 << 20, 1 << 18, 8


def piece_bytes(nbytes: float) -> float:
    """The bytes of the pieces that a part of `nbytes` is sent in."""
    return min(max(nbytes / _PIECES, _LEAST), _MOST)


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
            return
        self._received = np.empty(bucket.flat.shape, wire)
        self._wire = bucket.flat if wire == np.float32 else np.empty(bucket.flat.shape, wire)
        size = int(piece_bytes(bucket.part * wire.itemsize)) // wire.itemsize
        self._pieces = [slice(begin, min(begin + size, bucket.part)) for begin in range(0, bucket.part, size)]
        self._total = np.empty(size, np.float32)

    def __call__(self) -> Array:
        """This rank's part of the means [part]; without `shard` the bucket's memory has them all."""
        return self._largest() if self._count else self._whole()

    def _whole(self) -> Array:
        flat, ranks, wire, received = self._bucket.flat, self._ranks, self._wire, self._received
        others = [rank for rank in range(ranks.size) if rank != ranks.rank]
        arriving = [[ranks.receive(received[rank, piece], rank) for rank in others] for piece in self._pieces]
        leaving = [[ranks.send(self._packed(rank, piece), rank) for rank in others] for piece in self._pieces]
        sums: list[tuple[slice, list[Message]]] = []
        for piece, there, sent in zip(self._pieces, arriving, leaving, strict=True):
            for message in (*there, *sent):
                message.wait()
            self._sum(piece)
            if not self._shard:
                into, mean = flat if wire is flat else received, self._packed(ranks.rank, piece)
                messages = [ranks.receive(into[rank, piece], rank) for rank in others]
                messages += [ranks.send(mean, rank) for rank in others]
                sums.append((piece, messages))
        for piece, messages in sums:
            for message in messages:
                message.wait()
            if wire is not flat:
                received[ranks.rank, piece] = wire[ranks.rank, piece]
                np.copyto(flat[:, piece], received[:, piece])
        return flat[ranks.rank]

    def _packed(self, part: int, piece: slice) -> Array:
        """A piece of a part of the bucket's memory in the format of the wire."""
        if self._wire is not self._bucket.flat:
            self._wire[part, piece] = self._bucket.flat[part, piece]
        return self._wire[part, piece]

    def _sum(self, piece: slice) -> None:
        """Put the mean of a piece of this rank's part, as all ranks sent it, into the bucket's memory."""
        own, total = self._ranks.rank, self._total[: piece.stop - piece.start]
        total[:] = 0
        for rank in range(self._ranks.size):
            summand = self._packed(own, piece) if rank == own else self._received[rank, piece]
            total += summand.astype(np.float32, copy=False)
        np.multiply(total, np.float32(1 / self._ranks.size), out=self._bucket.flat[own, piece])

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
