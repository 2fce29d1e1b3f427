"""The memory that host and accelerator share, and what of it is whose: buffers for DMA, handed out and taken back.

Addresses are those of instructions, elements of a memory counted from the beginning of DRAM: all base registers are 0.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.errors import InputError
from tilewright.vta.check import elements
from tilewright.vta.isa import Isa


class Dram:
    """`data` are its bytes, which the host reads and writes as it likes while no program runs."""

    def __init__(self, isa: Isa, size: int) -> None:
        self._isa = isa
        self.data = np.zeros(size, np.uint8)
        self._free = [(0, size)]  # (first byte, bytes), by address
        self._given: dict[int, tuple[int, int]] = {}
        #: Bytes from the beginning to the end of the last buffer that there ever was.
        self.most = 0

    def reserve(self, memory: str, count: int) -> int:
        """The address, in elements of the memory, of `count` elements that nobody else has."""
        size = self._isa.memories[memory].element_bytes
        return self.allocate(count * size, size) // size

    def allocate(self, size: int, alignment: int = 1) -> int:
        """The first byte of `size` contiguous ones at a multiple of `alignment`: the first gap that they fit into."""
        size = max(size, 1)
        for index, (first, room) in enumerate(self._free):
            at = -(-first // alignment) * alignment
            if at + size <= first + room:
                rest = [(first, at - first), (at + size, first + room - at - size)]
                self._free[index : index + 1] = [gap for gap in rest if gap[1]]
                self._given[at] = (at, size)
                self.most = max(self.most, at + size)
                return at
        raise InputError(
            f"{size} bytes at a multiple of {alignment} do not fit into DRAM, of which {self.free_bytes} bytes in "
            f"{len(self._free)} pieces are free; make it larger, or release buffers"
        )

    def release(self, first: int) -> None:
        """Take back what `allocate` gave at the byte `first`. `InputError` where that is no buffer."""
        if first not in self._given:
            raise InputError(f"no buffer begins at byte {first} of DRAM, so none can be released there")
        gaps = sorted([*self._free, self._given.pop(first)])
        joined = gaps[:1]
        for at, size in gaps[1:]:
            if sum(joined[-1]) == at:
                joined[-1] = (joined[-1][0], joined[-1][1] + size)
            else:
                joined.append((at, size))
        self._free = joined

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody has."""
        return sum(size for _, size in self._free)

    def put(self, memory: str, values: np.ndarray) -> int:
        """Copy elements, (number, *shape of the memory's elements), into DRAM; the address in elements."""
        values = np.asarray(values)
        kind = self._isa.memories[memory]
        if values.shape[1:] != kind.shape:
            raise InputError(f"an element of {memory} has shape {kind.shape}; the array has {values.shape[1:]}")
        if not np.array_equal(values.astype(kind.dtype), values):
            raise InputError(f"numbers of {memory} are {kind.dtype.name}, and some of the array are not")
        first = self.reserve(memory, len(values))
        self.view(memory, first, len(values))[...] = values
        return first

    def put_bytes(self, data: bytes, alignment: int = 16) -> int:
        """Copy bytes, such as those of a program, into DRAM; the first byte."""
        first = self.allocate(len(data), alignment)
        self.data[first : first + len(data)] = np.frombuffer(data, np.uint8)
        return first

    def view(self, memory: str, first: int, count: int) -> np.ndarray:
        """Elements as they lie in DRAM, to read and to write: (count, *shape of an element)."""
        return elements(self._isa, memory, self.data)[first : first + count]

    def read(self, memory: str, first: int, count: int) -> np.ndarray:
        """A copy of elements."""
        return self.view(memory, first, count).copy()


def largest_element(isa: Isa) -> int:
    """Bytes at whose multiples a buffer can be addressed by every memory."""
    return math.lcm(*(memory.element_bytes for memory in isa.memories.values()))
