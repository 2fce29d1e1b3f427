"""The compute unit in time: its front, which hands out instructions, two cores, and the end, which signals tokens.

Delays between the stages are those of `vta/rtl/compute.py`; the comments name them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tilewright.vta.codec import Instruction, uop_fields
from tilewright.vta.cycle.events import Condition, Counter, Events, Process
from tilewright.vta.cycle.transfers import Reader
from tilewright.vta.isa import Isa
from tilewright.vta.loops import UopMemory, factors

#: From a core's last step to its result in memory.
GEMM_DELAY, ALU_DELAY = 7, 4
#: Instructions that a core has and has before it; those that are not done.
_DEPTH = {"GEMM": 4, "ALU": 16}
RETIRE_DEPTH = 32
#: The front around the scan of micro-ops: to their end, to the stretch, to handing out.
_SCAN_DELAY = 4
#: From handing out to the first step: through the core's queue.
_QUEUE_DELAY = 3


@dataclass
class Work:
    """A GEMM or ALU that was handed out: its steps, the accumulators that it reaches, and when it may begin."""

    position: int
    kind: str
    steps: int
    low: int
    high: int
    ready: int


class Compute:
    """Cores and what is under way. `banks` are halves of the accumulators; the cores meet within one."""

    def __init__(self, isa: Isa, events: Events, reader: Reader) -> None:
        self.isa, self.events, self.reader = isa, events, reader
        self.half = max(isa.memories["ACC"].depth // 2, 1)
        self.uops = UopMemory(isa)
        self.under_way: dict[str, list[Work]] = {"GEMM": [], "ALU": []}
        self.changed = Condition(events)
        self.pending: dict[str, deque[Work]] = {"GEMM": deque(), "ALU": deque()}
        self.running: Work | None = None
        self.busy = {"GEMM": 0, "ALU": 0}
        self.spans: list[tuple[str, int, int, int]] = []
        self.loads = 0
        self.finished: dict[int, int] = {}
        self._wanted = {"GEMM": Condition(events), "ALU": Condition(events)}

    def measure(self, position: int, x: Instruction) -> Work:
        """The work of an instruction, by its micro-ops."""
        base = uop_fields(self.isa, self.uops.words[x["uop_begin"] : x["uop_end"]])
        rounds = x["iter_out"] - 1, x["iter_in"] - 1
        used = 2 if x.name == "ALU" and not x["use_imm"] else 1
        low = min(int(index.min()) for index in base[:used])
        high = max(
            int(index.max()) + rounds[0] * outer + rounds[1] * inner
            for index, (outer, inner) in list(zip(base, factors(x)))[:used]
        )
        steps = x["iter_out"] * x["iter_in"] * (x["uop_end"] - x["uop_begin"])
        return Work(position, x.name, steps, low, high, 0)

    def may_go(self, work: Work) -> bool:
        """True if the core has room and the other one does not reach the same accumulators."""
        other = self.under_way["ALU" if work.kind == "GEMM" else "GEMM"]
        meets = any(w.low <= work.high and w.high >= work.low for w in other)
        return not meets and len(self.under_way[work.kind]) < _DEPTH[work.kind]

    def hand_out(self, work: Work) -> None:
        """To its core."""
        work.ready = self.events.now + _QUEUE_DELAY
        self.under_way[work.kind].append(work)
        self.pending[work.kind].append(work)
        self._wanted[work.kind].notify()

    def _finish(self, work: Work, last: int, delay: int) -> None:
        """The result is in memory a while after the last step; a cycle later that can be seen."""
        done = self.finished[work.position] = last + delay

        def free() -> None:
            self.under_way[work.kind].remove(work)
            self.changed.notify()

        self.events.at(done + 1, free)
        self.changed.notify()

    def gemm_core(self) -> Process:
        """One step a cycle, one instruction behind another."""
        free = 0
        while True:
            while not self.pending["GEMM"]:
                yield self._wanted["GEMM"]
            work = self.pending["GEMM"].popleft()
            yield max(free, work.ready)
            start = self.events.now
            self.running, free = work, start + work.steps
            self._wanted["ALU"].notify()
            yield free
            self.running = None
            self._wanted["ALU"].notify()
            self.busy["GEMM"] += work.steps
            self.spans.append(("GEMM core", work.position, start, free))
            self._finish(work, free - 1, GEMM_DELAY)

    def alu_core(self) -> Process:
        """One step a cycle, but where GEMM works on the same bank."""
        free = 0
        while True:
            while not self.pending["ALU"]:
                yield self._wanted["ALU"]
            work = self.pending["ALU"].popleft()
            yield max(free, work.ready)
            start, left = self.events.now, float(work.steps)
            while left > 0:
                rate, since = self._rate(work), self.events.now
                if rate:
                    end = since + max(1, round(left / rate))
                    self.events.at(end, self._wanted["ALU"].notify)
                yield self._wanted["ALU"]
                left -= rate * (self.events.now - since)
                left = 0.0 if left < 1 else left
            free = self.events.now
            self.busy["ALU"] += work.steps
            self.spans.append(("ALU core", work.position, start, free))
            self._finish(work, free - 1, ALU_DELAY)

    def _rate(self, work: Work) -> float:
        """Steps a cycle that ALU can do beside what GEMM does: the part of them in the bank that GEMM leaves alone."""
        if self.running is None:
            return 1.0
        mine, theirs = self._upper(work), self._upper(self.running)
        return 1.0 - (mine * theirs + (1 - mine) * (1 - theirs))

    def _upper(self, work: Work) -> float:
        """The part of a stretch that is in the upper bank."""
        below = max(0, min(work.high + 1, self.half) - work.low)
        return 1.0 - below / (work.high - work.low + 1)

    def front_delay(self, x: Instruction) -> int:
        """Cycles from taking a GEMM or ALU to handing it out."""
        return x["uop_end"] - x["uop_begin"] + _SCAN_DELAY


def tokens(events: Events) -> dict[str, Counter]:
    """The four queues."""
    names = ("load to compute", "compute to load", "compute to store", "store to compute")
    return {name: Counter(events) for name in names}
