"""Discrete-event simulation: processes are generators that yield the time or the event that they wait for.

A process yields a cycle at which it goes on, or a `Condition`; then it goes on when that is notified. What happens in
the same cycle happens in the order in which it was requested.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator

Process = Generator["int | Condition", None, None]


class Condition:
    """Something that processes wait for."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._waiting: list[Process] = []

    def wait(self, process: Process) -> None:
        """Park a process until `notify`."""
        self._waiting.append(process)

    def notify(self) -> None:
        """All that wait look again, in this cycle."""
        for process in self._waiting:
            self._events.resume(process, self._events.now)
        self._waiting.clear()


class Events:
    """The clock, `now`, and what is to happen when."""

    def __init__(self) -> None:
        self.now = 0
        self._heap: list[tuple[int, int, Process | Callable[[], None]]] = []
        self._count = 0

    def resume(self, process: Process, time: int) -> None:
        """Let a process go on at a cycle."""
        self._push(time, process)

    def at(self, time: int, action: Callable[[], None]) -> None:
        """Call a function at a cycle."""
        self._push(time, action)

    def _push(self, time: int, what: Process | Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(time, self.now), self._count, what))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._heap:
            self.now, _, what = heapq.heappop(self._heap)
            if not isinstance(what, Generator):
                what()
                continue
            wanted = next(what, None)
            if isinstance(wanted, int):
                self.resume(what, wanted)
            elif wanted is not None:
                wanted.wait(what)


class Counter:
    """A number of tokens, or of free positions: `add` at a cycle, `take` when one is there."""

    def __init__(self, events: Events, count: int = 0) -> None:
        self._events, self.count, self.changed = events, count, Condition(events)

    def add(self, time: int) -> None:
        """One more from a cycle on."""
        self._events.at(time, self._one_more)

    def _one_more(self) -> None:
        self.count += 1
        self.changed.notify()
