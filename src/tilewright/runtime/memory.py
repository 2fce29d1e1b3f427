"""Memory for compiled code: aligned arrays, large regions on huge pages, and the address behind an array."""

from __future__ import annotations

import ctypes
import math
import mmap
from contextlib import suppress
from typing import Any

import numpy as np

from tilewright.errors import EnvironmentError_
from tilewright.support import knobs

#: Every buffer Tilewright allocates starts on a cache line.
ALIGNMENT = 64
_HUGE_PAGE = 2 << 20

_char = ctypes.c_char
_addressof = ctypes.addressof

#: An array whose rank and dtype only the model knows.
Array = np.ndarray[tuple[int, ...], np.dtype[Any]]


def address_of(array: Any) -> int:
    """The address of the first element. The caller keeps the array alive while it uses the address."""
    try:
        # 0.4 us against 1.1 us for the array interface and more for `.ctypes`; needs a writable, non-empty array.
        return _addressof(_char.from_buffer(array))
    except (TypeError, ValueError, BufferError):
        return array.__array_interface__["data"][0]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialized C-contiguous array whose first element is 64-byte aligned."""
    raw: Any = np.empty(math.prod(shape) * dtype.itemsize + ALIGNMENT, np.uint8)
    return np.ndarray(shape, dtype, raw, -_addressof(_char.from_buffer(raw)) % ALIGNMENT)


def same_bytes(a: Array, b: Array) -> bool:
    """True if two blocks of bytes are equal; compared piece by piece, without a copy of either."""
    piece = 1 << 20
    return a.size == b.size and all(np.array_equal(a[i : i + piece], b[i : i + piece]) for i in range(0, a.size, piece))


def round_up(value: int, multiple: int) -> int:
    """The least multiple of `multiple` that is not below `value`."""
    return -(-value // multiple) * multiple


class Region:
    """Zeroed memory straight from the kernel, for working memory and weights. `bytes` may be 0.

    Regions of several megabytes start on a huge page boundary and ask for huge pages (TILEWRIGHT_HUGE_PAGES=0: not).
    """

    def __init__(self, size: int) -> None:
        self.size = size
        large = size >= 2 * _HUGE_PAGE
        try:
            # private: shared memory, the default, gets huge pages only where the system says so of it too
            flags = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
            self._mapping = mmap.mmap(-1, max(size, 1) + (_HUGE_PAGE if large else ALIGNMENT), **flags)
        except (OSError, ValueError, OverflowError) as error:
            raise EnvironmentError_(f"cannot allocate {size} bytes of memory for the model: {error}") from None
        base = _addressof(_char.from_buffer(self._mapping))
        self.address = round_up(base, _HUGE_PAGE if large else ALIGNMENT)
        self._skip = self.address - base
        if large and hasattr(mmap, "MADV_HUGEPAGE") and knobs.HUGE_PAGES.get():
            with suppress(OSError):
                self._mapping.madvise(mmap.MADV_HUGEPAGE)

    def array(self) -> Array:
        """The whole region as bytes (`uint8`), sharing its memory."""
        return np.frombuffer(self._mapping, np.uint8, self.size, self._skip)
