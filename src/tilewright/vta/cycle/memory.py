"""The memory port in time: requests in turns, answers in their order after a delay, one beat a cycle."""

from __future__ import annotations

import itertools
from collections import deque

from tilewright.vta.hardware import Hardware


class MemoryPort:
    """Reads of all clients. Answers come in the order of requests, so a burst's end is known when it is requested."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.beats = 0
        self._asked, self._free = -1, 0
        self._ends: deque[int] = deque(maxlen=hardware.requests)

    def earliest(self, time: int) -> int:
        """The first cycle from `time` on in which a request can be made."""
        if len(self._ends) == self.hardware.requests:
            time = max(time, self._ends[0] + 1)
        return max(time, self._asked + 1)

    def request(self, time: int, beats: int, ready: int, cycles: int) -> tuple[int, int]:
        """A burst requested at `time` (see `earliest`), taken from `ready` on in `cycles`; its first and last one."""
        self._asked = time
        first = max(time + self.hardware.latency, self._free, ready)
        self._free = first + cycles
        self._ends.append(self._free - 1)
        self.beats += beats
        return first, self._free - 1

    def bursts(self, address: int, size: int) -> list[int]:
        """Beats of the bursts that bring `size` bytes from `address` on."""
        width, longest = self.hardware.port_bytes, self.hardware.burst
        first, last = address // width, (address + size - 1) // width
        if first // longest == last // longest:
            return [last - first + 1]
        edges = [first, *range((first // longest + 1) * longest, last + 1, longest), last + 1]
        return [after - before for before, after in itertools.pairwise(edges)]
