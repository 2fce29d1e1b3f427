"""Memory of outputs: what the caller has let go is filled again by a later run.

Fresh memory costs a page fault for every 4 KiB, 0.3 to 4.5 us each: the 4 MiB of a product of 1024 x 1024 cost as much
as a third of its arithmetic. An array may be kept for as long as the caller likes; only when nothing refers to it any
more, no view and no DLPack consumer, its memory is used again.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import numpy as np

from tilewright.runtime.memory import Array, Region, aligned_empty

#: Bytes from which an output's memory is kept; smaller arrays come from memory that the allocator keeps itself.
_WORTH_KEEPING = 128 << 10


class OutputMemory:
    """Makes output arrays, and keeps the memory of at most `limit` of those that are gone."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._free: list[Region] = []  # appended to and popped from by whichever thread drops or makes an array

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An uninitialized C-contiguous array whose first element is 64-byte aligned."""
        size = math.prod(shape) * dtype.itemsize
        if size < _WORTH_KEEPING:
            return aligned_empty(shape, dtype)
        lease = _Lease(self._take(size), self)
        return np.asarray(lease).view(dtype).reshape(shape)

    def _take(self, size: int) -> Region:
        """A kept region of just `size` bytes, or a new one."""
        for region in tuple(self._free):
            if region.size == size:
                with suppress(ValueError):  # another thread's array evicted it meanwhile
                    self._free.remove(region)
                    return region
        return Region(size)

    def release(self, region: Region) -> None:
        """Keep `region` for a later array, in place of the oldest one where there are `limit`."""
        self._free.append(region)
        if len(self._free) > self._limit:
            del self._free[0]


class _Lease:
    """The owner of an output's memory: NumPy holds it as the base of the array and of every view."""

    __slots__ = ("__array_interface__", "_memory", "_region")

    def __init__(self, region: Region, memory: OutputMemory) -> None:
        self._region, self._memory = region, memory
        self.__array_interface__ = {
            "shape": (region.size,),
            "typestr": "|u1",
            "data": (region.address, False),
            "version": 3,
        }

    def __del__(self) -> None:
        self._memory.release(self._region)
