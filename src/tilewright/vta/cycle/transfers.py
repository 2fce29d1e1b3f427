"""Loads in time, as the RTL's reader does them: rows are requested ahead of their stores."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

from tilewright.vta.codec import Instruction
from tilewright.vta.cycle.events import Condition, Events
from tilewright.vta.cycle.memory import MemoryPort
from tilewright.vta.isa import Isa
from tilewright.vta.loops import memory_of, sram_shape

#: Instructions between the half that asks and the half that positions.
_UNDER_WAY = 4


class Reader:
    """`load` is a process that ends when all of an instruction is requested; it returns when all is stored."""

    def __init__(self, isa: Isa, events: Events, port: MemoryPort) -> None:
        self.isa, self.events, self.port = isa, events, port
        self.moving = 0
        self._placed = -1
        self._ends: deque[int] = deque(maxlen=_UNDER_WAY)

    def room(self, time: int) -> int:
        """The first cycle from `time` on in which an instruction can be taken."""
        return max(time, self._ends[0] + 1) if len(self._ends) == _UNDER_WAY else time

    def load(self, x: Instruction, begin: int) -> Generator[int | Condition, None, int]:
        """An instruction taken in the cycle `begin`; returns the cycle in which its last element is written."""
        if not x["x_size"]:
            self._placed = max(self._placed + 1, begin + 2)
            self._ends.append(self._placed)
            return self._placed
        kind = self.isa.memories[memory_of(self.isa, x)]
        _, columns = sram_shape(x)
        size, width = kind.element_bytes, self.port.hardware.port_bytes
        ready = max(self._placed + 1, begin + 2)
        start = ready
        time, ready = begin + 1, ready + x["y_pad_0"] * columns
        for row in range(x["y_size"]):
            address = (x["dram"] + row * x["x_stride"]) * size
            ready += x["x_pad_0"]
            left = x["x_size"] * size
            for beats in self.port.bursts(address, left):
                while (soonest := self.port.earliest(time)) > self.events.now:
                    yield soonest
                here = min(left, beats * width - address % width)
                cycles = beats if size >= width else here // size
                _, last = self.port.request(self.events.now, beats, ready, cycles)
                address, left = address + here, left - here
                time, ready = self.events.now + 1, last + 1
            ready += x["x_pad_1"]
        self._placed = ready + x["y_pad_1"] * columns - 1
        self._ends.append(self._placed)
        self.moving += self._placed - max(start, begin) + 1
        return self._placed
