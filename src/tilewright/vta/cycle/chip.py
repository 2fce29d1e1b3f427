"""A whole chip in time: fetch, load, compute and store as processes over one memory, joined by tokens.

The delays are those of the RTL in `vta/rtl`, which measures the same within a few percent (docs/vta_hardware.md). What
programs compute is not computed here: `CycleDriver` does that, in the order that is found here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from tilewright.errors import ProgramError
from tilewright.vta.check import elements
from tilewright.vta.codec import Instruction, disassemble
from tilewright.vta.cycle.compute import RETIRE_DEPTH, Compute, tokens
from tilewright.vta.cycle.events import Condition, Counter, Events, Process
from tilewright.vta.cycle.memory import MemoryPort
from tilewright.vta.cycle.transfers import Reader
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.loops import dram_elements, memory_of
from tilewright.vta.order import UNITS, unit_of
from tilewright.vta.usage import ACTIVITIES, Slice, Usage

#: Instructions that fetch requests ahead, and at once.
_AHEAD, _AT_ONCE = 32, 16
#: From an instruction's last beat to its dispatch, and from there, through a queue, to the unit.
_ASSEMBLE, _QUEUE = 2, 2
#: From the launch to the first request.
_LAUNCH = 1

_FLAG_QUEUES = {
    "load": {"pop_next": "compute to load", "push_next": "load to compute"},
    "compute": {
        "pop_prev": "load to compute", "pop_next": "store to compute", "push_prev": "compute to load",
        "push_next": "compute to store",
    },
    "store": {"pop_prev": "compute to store", "push_prev": "store to compute"},
}  # fmt: skip


class _Queue:
    """A unit's instructions as fetch hands them over."""

    def __init__(self, events: Events, depth: int) -> None:
        self.depth, self.items = depth, deque[tuple[int, Instruction, int]]()
        self.filled, self.emptied = Condition(events), Condition(events)


class Chip:
    """The state of a run; `simulate` makes one and lets it run."""

    def __init__(self, isa: Isa, program: Sequence[Instruction], dram: np.ndarray, hardware: Hardware) -> None:
        self.isa, self.program, self.dram, self.hardware = isa, program, dram, hardware
        self.events = events = Events()
        self.port = MemoryPort(hardware)
        self.tokens = tokens(events)
        self.queues = {unit: _Queue(events, hardware.queue) for unit in UNITS}
        self.load_reader, self.compute_reader = (Reader(isa, events, self.port) for _ in range(2))
        self.compute = Compute(isa, events, self.compute_reader)
        self.waits = dict.fromkeys(UNITS, 0)
        self.slices: list[Slice] = []
        self.order: list[tuple[int, int]] = []
        self.finished: int | None = None
        self._ending: deque[tuple[int, Instruction, list[int | None]]] = deque()
        self._ended = Condition(events)
        self._storing = 0

    def run(self, address: int) -> None:
        """All processes to the end. `ProgramError` where they end before FINISH does."""
        for process in (
            self._fetch(address), self._load(), self._front(), self.compute.gemm_core(), self.compute.alu_core(),
            self._end(), self._store(),
        ):  # fmt: skip
            self.events.resume(process, _LAUNCH)
        self.events.run()
        if self.finished is None:
            self._refuse()

    def _refuse(self) -> None:
        waiting = [
            f"  {unit}: instruction {queue.items[0][0]} `{disassemble(self.isa, queue.items[0][1])}`"
            for unit, queue in self.queues.items()
            if queue.items
        ]
        text = "\n".join(["no unit can go on; these are at the heads of their queues:", *waiting])
        raise ProgramError(
            f"{text}\nThey wait for tokens that do not come, or for instructions behind a queue of "
            f"{self.hardware.queue} that is full",
            "deadlock",
        )

    def _fetch(self, address: int) -> Process:
        """Instructions in bursts, as long as there is room, then to their queues one after another."""
        size, width = self.isa.instruction_bits // 8, self.hardware.port_bytes
        staged: deque[int] = deque()
        asked = 0
        longest = min(_AT_ONCE, max(1, self.hardware.burst * width // size))
        before = 0
        for position, x in enumerate(self.program):
            while asked < len(self.program) and len(staged) + self._next_burst(asked, address, longest) <= _AHEAD:
                number = self._next_burst(asked, address, longest)
                while (soonest := self.port.earliest(self.events.now)) > self.events.now:
                    yield soonest
                beats = max(1, number * size // width)
                cycles = max(beats, number)
                first, _ = self.port.request(self.events.now, beats, 0, cycles)
                self.slices.append(Slice("fetch", f"{number} instructions", first, first + cycles))
                staged.extend(first + cycles * (i + 1) // number - 1 for i in range(number))
                asked += number
                yield self.events.now + 1
            queue = self.queues[unit_of(self.isa, x)]
            yield max(staged[0] + _ASSEMBLE, before + 1)
            while len(queue.items) >= queue.depth:
                yield queue.emptied
            staged.popleft()
            before = self.events.now
            queue.items.append((position, x, before + _QUEUE))
            queue.filled.notify()

    def _next_burst(self, asked: int, address: int, longest: int) -> int:
        size, width = self.isa.instruction_bits // 8, self.hardware.port_bytes
        at = address + asked * size
        boundary = self.hardware.burst * width if size >= width else width
        return min(len(self.program) - asked, longest, (boundary - at % boundary) // size)

    def _next(self, unit: str) -> Process:
        """Wait until a unit has an instruction and the tokens for it."""
        queue = self.queues[unit]
        while not queue.items:
            yield queue.filled
        yield queue.items[0][2]
        since = self.events.now
        for counter in self._counters(unit, queue.items[0][1], "pop"):
            while not counter.count:
                yield counter.changed
        self.waits[unit] += self.events.now - since

    def _take(self, unit: str) -> None:
        """The instruction leaves its queue, the tokens are gone."""
        queue = self.queues[unit]
        position, x, _ = queue.items.popleft()
        queue.emptied.notify()
        for counter in self._counters(unit, x, "pop"):
            counter.count -= 1
        self.order.append((self.events.now, position))

    def _counters(self, unit: str, x: Instruction, verb: str) -> list[Counter]:
        named = _FLAG_QUEUES[unit].items()
        return [self.tokens[name] for flag, name in named if flag.startswith(verb) and x[flag]]

    def _load(self) -> Process:
        for _ in range(sum(unit_of(self.isa, x) == "load" for x in self.program)):
            yield from self._next("load")
            yield self.load_reader.room(self.events.now)
            x, begin = self.queues["load"].items[0][1], self.events.now
            position = self.queues["load"].items[0][0]
            self._take("load")
            placed = yield from self.load_reader.load(x, begin)
            if x["x_size"]:
                self.slices.append(Slice("load", f"{position} LOAD {memory_of(self.isa, x)}", begin, placed + 1))
            for counter in self._counters("load", x, "push"):
                counter.add(placed + 1)
            yield self.events.now + 1

    def _front(self) -> Process:
        for _ in range(sum(unit_of(self.isa, x) == "compute" for x in self.program)):
            yield from self._next("compute")
            while len(self._ending) >= RETIRE_DEPTH:
                yield self._ended
            position, x, _ = self.queues["compute"].items[0]
            done: list[int | None] = [None]
            if x.name == "LOAD" and x["x_size"]:
                yield from self._compute_load(position, x, done)
                continue
            if x.name in ("GEMM", "ALU"):
                while self.compute.loads:
                    yield self._ended
                self._take("compute")
                yield from self._hand_out(position, x, done)
            else:
                self._take("compute")
                done[0] = self.events.now + 1
                self._ending.append((position, x, done))
                self._ended.notify()
            yield self.events.now + 1

    def _compute_load(self, position: int, x: Instruction, done: list[int | None]) -> Process:
        """A load waits for both cores."""
        while any(self.compute.under_way.values()):
            yield self.compute.changed
        yield self.compute_reader.room(self.events.now)
        begin = self.events.now
        self._take("compute")
        self.compute.loads += 1
        self._ending.append((position, x, done))
        if memory_of(self.isa, x) == "UOP":
            words = elements(self.isa, "UOP", self.dram)[dram_elements(x)].ravel()
            self.compute.uops.write(x["sram"], words)
        placed = done[0] = yield from self.compute_reader.load(x, begin)
        self.slices.append(Slice("compute", f"{position} LOAD {memory_of(self.isa, x)}", begin, placed + 1))

        def free() -> None:
            self.compute.loads -= 1
            self._ended.notify()

        self.events.at(placed + 1, free)
        self._ended.notify()
        yield self.events.now + 1

    def _hand_out(self, position: int, x: Instruction, done: list[int | None]) -> Process:
        """The scan of micro-ops, then the core."""
        work = self.compute.measure(position, x)
        yield self.events.now + self.compute.front_delay(x)
        while not self.compute.may_go(work):
            yield self.compute.changed
        self.compute.hand_out(work)
        self._ending.append((position, x, done))
        self._ended.notify()

    def _end(self) -> Process:
        """Instructions of compute leave in their order, when they are done; their tokens are there a cycle later."""
        before = 0
        works = self.compute.finished
        while self.finished is None:
            while not self._ending:
                yield self._ended
            position, x, done = self._ending[0]
            if x.name in ("GEMM", "ALU"):
                while position not in works:
                    yield self.compute.changed
                done[0] = works.pop(position)
            while done[0] is None:
                yield self._ended
            yield max(done[0] + 1, before + 1)
            before = self.events.now
            self._ending.popleft()
            self._ended.notify()
            for counter in self._counters("compute", x, "push"):
                counter.add(before + 1)
            if x.name == "FINISH":
                self.finished = before

    def _store(self) -> Process:
        size, width = self.isa.memories["OUT"].element_bytes, self.hardware.port_bytes
        for _ in range(sum(x.name == "STORE" for x in self.program)):
            yield from self._next("store")
            position, x, _ = self.queues["store"].items[0]
            begin = time = self.events.now
            for row in range(x["y_size"] if x["x_size"] else 0):
                address = (x["dram"] + row * x["x_stride"]) * size
                if size >= width:
                    time += sum(beats + 1 for beats in self.port.bursts(address, x["x_size"] * size))
                else:
                    time += 2 * x["x_size"]
            if x["x_size"]:
                time += self.hardware.latency + 1
                yield time
                self._storing += time - begin
                self.slices.append(Slice("store", f"{position} STORE", begin, time))
            self._take("store")
            for counter in self._counters("store", x, "push"):
                counter.add(self.events.now + 1)
            yield self.events.now + 1

    def usage(self) -> Usage:
        """The usage of the units."""
        assert self.finished is not None
        busy = self.compute.busy
        counts = [
            self.waits["load"], self.load_reader.moving, self.waits["compute"], self.compute_reader.moving,
            busy["GEMM"], busy["ALU"], self.waits["store"], self._storing,
        ]  # fmt: skip
        for track, position, start, end in self.compute.spans:
            self.slices.append(Slice(track, f"{position} {self.program[position].name}", start, end))
        return Usage(self.finished, dict(zip(ACTIVITIES, counts)), self.slices)


def simulate(
    isa: Isa, program: Sequence[Instruction], dram: np.ndarray, hardware: Hardware | None = None, address: int = 0
) -> Chip:
    """Run a legal program's timing. `dram` has the micro-ops; `address` is where the program's bytes are."""
    chip = Chip(isa, program, dram, hardware or Hardware())
    chip.run(address)
    return chip
