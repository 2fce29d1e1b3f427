"""The expected cost of a kernel: cycles of one core, by resource, and the traffic that they rest on.

    reads = Traffic(machine, workers=2)
    reads.add(weights, apart=panel + window)      # bytes read again after `panel + window` others have passed by
    cost = reads.cost(arithmetic=steps * tile / machine.fma_per_cycle, load_ports=steps * loads)
    cost.cycles, cost.bound                       # 81234.5, "arithmetic"

Where data comes from is decided by reuse: what is read again comes from the smallest level that holds all that has
passed by since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.machine import Machine

#: What cycles can be spent on, in the order from the core outwards.
RESOURCES = ("arithmetic", "load_ports", "l2", "l3", "memory")

#: How sharply the longest of several hides the others: the order of the mean of those that the core overlaps by
#: itself (multiply-adds, loads, the second-level cache), and of them and what lies beyond, whose latency shows.
_WITHIN, _BEYOND = 4.0, 1.2

#: The order of the mean of that cache and of the rest where data comes from it in short pieces: what the core then
#: waits for counts as stalls.
_NEAR = 2.0


@dataclass(frozen=True)
class Cost:
    """Cycles of the slowest worker: what each resource alone would take, `fixed` ones, and those of `before`.

    `stalls` are cycles that a core waits for its caches; `hidden` are those of `l3` and `memory` that prefetching hides
    behind the rest. `before` is another part of the kernel, done first, whose cycles add up with these.
    """

    arithmetic: float = 0.0
    load_ports: float = 0.0
    l2: float = 0.0
    l3: float = 0.0
    memory: float = 0.0
    fixed: float = 0.0
    stalls: float = 0.0
    hidden: float = 0.0
    before: Cost | None = None

    @property
    def cycles(self) -> float:
        """All cycles."""
        within = _mean((self.arithmetic, self.load_ports, self.l2), _WITHIN) + self.stalls
        here = _mean((within, self.l3 + self.memory - self.hidden), _BEYOND) + self.fixed
        return here if self.before is None else here + self.before.cycles

    @property
    def spent(self) -> dict[str, float]:
        """Cycles that each of `RESOURCES` alone would take, and those that are "fixed", of all parts."""
        earlier = {} if self.before is None else self.before.spent
        return {name: float(getattr(self, name)) + earlier.get(name, 0.0) for name in (*RESOURCES, "fixed")}

    @property
    def bound(self) -> str:
        """The resource that most cycles are spent on: one of `RESOURCES`, or "fixed"."""
        spent = dict.fromkeys((*RESOURCES, "fixed"), 0.0)
        part: Cost | None = self
        while part is not None:
            longest = max(RESOURCES, key=lambda name: float(getattr(part, name)))
            spent[longest] += replace(part, fixed=0.0, before=None).cycles
            spent["fixed"] += part.fixed
            part = part.before
        return max(spent, key=spent.__getitem__)

    def times(self, count: float) -> Cost:
        """The cost of doing this `count` times."""
        scaled = {name: count * getattr(self, name) for name in (*RESOURCES, "fixed", "stalls", "hidden")}
        return Cost(**scaled, before=None if self.before is None else self.before.times(count))

    def then(self, after: Cost) -> Cost:
        """The cost of this and then `after`."""
        return replace(after, before=self if after.before is None else self.then(after.before))


class Traffic:
    """Bytes that one of `workers` cores takes from each level while it runs a loop nest.

    `streamed` are cycles of those that could be fetched ahead, `waited` those that pass where nothing is.
    """

    def __init__(self, machine: Machine, workers: int = 1) -> None:
        self.machine, self.workers = machine, workers
        self.l2 = self.l3 = self.memory = self.streamed = self.waited = 0.0

    def add(self, count: float, apart: float) -> None:
        """`count` bytes more, each read after `apart` bytes of everything since it was last touched."""
        machine = self.machine
        if self.in_l1(apart):
            return
        if apart <= machine.kept_l2 * machine.l2.size:
            self.l2 += count
        elif apart <= machine.l3.size:
            self.l3 += count
        else:
            self.memory += count

    def receive(self, count: float) -> None:
        """`count` bytes more, which are in another core's cache."""
        self.l3 += count

    def latency(self, apart: float) -> float:
        """Cycles until the first of data arrives that was touched `apart` bytes ago, by the lines in flight."""
        machine = self.machine
        if self.in_l1(apart):
            return machine.load_latency
        if apart <= machine.kept_l2 * machine.l2.size:
            return machine.lines_in_flight * machine.line / machine.read_l2.one
        level = machine.read_l3 if apart <= machine.l3.size else machine.read_memory
        return machine.lines_in_flight * machine.line / level.one

    def stream(self, count: float, apart: float, first: bool = True) -> None:
        """`add` of weights that a loop nest passes over as one stream, for the first time or again."""
        machine, count = self.machine, count / (self.machine.first_read if first else 1.0)
        self.add(count, apart)
        if apart > machine.kept_l2 * machine.l2.size:
            level = machine.read_l3 if apart <= machine.l3.size else machine.read_memory
            self.streamed += count / level.share(self.workers)

    def gather(self, count: float, piece: float, streams: float) -> None:
        """`count` bytes which all workers have written are read in pieces of `piece` bytes, out of `streams` positions.

        A prefetcher brings them if it can follow so many. Else the first line of each piece of the others' part is
        waited for, about as long as a barrier takes, for which a line goes to and fro too.
        """
        if streams > self.machine.streams:
            self.waited += (1 - 1 / self.workers) * count / piece * self.machine.barrier

    def in_l1(self, apart: float) -> bool:
        """True if what is read again after `apart` bytes is found in the first-level cache."""
        return apart <= self.machine.kept_l1 * self.machine.l1.size

    def cost(
        self,
        arithmetic: float,
        load_ports: float,
        fixed: float = 0.0,
        ahead: float = 0.0,
        unasked: float = 0.0,
        first: float = 1.0,
    ) -> Cost:
        """The cost of these bytes beside other cycles; what comes from a level passes those before it too.

        What is streamed is fetched during a share `ahead` of the work, and pieces before they are read; 0: nothing is.
        `unasked` is the share of the stream's latency that the core hides by itself (`looked_ahead`) during the share
        `first` of the work that reads it for the first time.
        """
        machine = self.machine
        beyond = self.l3 + self.memory
        levels = ((self.l2 + beyond, machine.read_l2), (beyond, machine.read_l3), (self.memory, machine.read_memory))
        l2, l3, memory = (count / level.share(self.workers) for count, level in levels)
        within = _mean((arithmetic, load_ports), _WITHIN)
        near = _mean((within, l2), _NEAR)
        stalls = max(near - _mean((arithmetic, load_ports, l2), _WITHIN), 0.0)
        hidden = max(machine.prefetched * min(self.streamed, ahead * near), unasked * min(self.streamed, near * first))
        return Cost(arithmetic, load_ports, l2, l3, memory, fixed, stalls if ahead else stalls + self.waited, hidden)


def looked_ahead(instructions: float, lines: float, machine: Machine) -> float:
    """The share of the latency of weights from afar that the core hides by itself: it comes to further loads meanwhile.

    A step has so many `instructions` and new `lines`: nothing is hidden of one that does much with each line, nearly
    all of a single row, for which prefetching is in vain.
    """
    return max(0.0, 1 - machine.lines_in_flight * instructions / lines / machine.window)


def overlapped(arithmetic: float, load_ports: float) -> float:
    """Cycles of multiply-adds and loads that a core does at a time."""
    return _mean((arithmetic, load_ports), _WITHIN)


def _mean(values: tuple[float, ...], order: float) -> float:
    """The mean of a high order: the largest where it is by far so, more where several come near it."""
    most = max(values)
    if not most:
        return 0.0
    total = 0.0
    for value in values:  # a loop, as spaces are ranked by tens of thousands of these
        total += (value / most) ** order
    return float(most * total ** (1 / order))
