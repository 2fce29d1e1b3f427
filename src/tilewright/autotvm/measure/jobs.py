"""Jobs that many devices share: each is given to one, to another where that one is lost or late, and counts once.

jobs = Jobs(range(8))
attempt = jobs.take("pi-3")             # waits; None when nothing is left to do
jobs.done(attempt, value)               # False where another device was first
jobs.lost(attempt, "it fell silent")    # it is given out again
jobs.wait(); jobs.values                # by the number of the job
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Attempt:
    """A job at a device: its number, what it is, and when it was given out."""

    number: int
    job: Any
    device: str
    begun: float


class Jobs:
    """Thread-safe. `lost_for_good` has the jobs that went down with a device `tries` times, with the last reason.

    A device without work gets a job that another one has had for `late_seconds`. `doubles` counts the results of jobs
    that had one already, `lates` those of attempts that had been reported lost, which count where they are the first.
    """

    def __init__(
        self,
        jobs: Sequence[Any],
        tries: int = 3,
        late_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._jobs, self._tries, self._late, self._clock = list(jobs), tries, late_seconds, clock
        self._changed = threading.Condition()
        self._waiting = deque(range(len(self._jobs)))
        self._running: list[Attempt] = []
        self._given = [0] * len(self._jobs)
        self._closed = False
        self.values: dict[int, Any] = {}
        self.lost_for_good: dict[int, str] = {}
        self.doubles = self.lates = 0

    @property
    def over(self) -> bool:
        """True if every job has a value or failed for good, or the queue was closed."""
        return self._closed or len(self.values) + len(self.lost_for_good) == len(self._jobs)

    def take(self, device: str, seconds: float = float("inf")) -> Attempt | None:
        """A job for a device, waited for as long as others may lose theirs; None when all are over, or it took long."""
        end = self._clock() + seconds
        with self._changed:
            while not self.over:
                number = self._next(device)
                if number is not None:
                    self._given[number] += 1
                    attempt = Attempt(number, self._jobs[number], device, self._clock())
                    self._running.append(attempt)
                    return attempt
                if self._clock() >= end:
                    return None
                self._changed.wait(min(0.25, max(end - self._clock(), 1e-3)))
            return None

    def done(self, attempt: Attempt, value: Any) -> bool:
        """A result has come; whether it counts."""
        with self._changed:
            known = attempt in self._running
            self.lates += not known
            if known:
                self._running.remove(attempt)
            if attempt.number in self.values:
                self.doubles += 1
                return False
            self.values[attempt.number] = value
            self.lost_for_good.pop(attempt.number, None)
            if attempt.number in self._waiting:
                self._waiting.remove(attempt.number)
            self._changed.notify_all()
            return True

    def lost(self, attempt: Attempt, reason: str) -> None:
        """The device of an attempt is gone; its job waits again, in front."""
        with self._changed:
            if attempt not in self._running:
                return
            self._running.remove(attempt)
            number = attempt.number
            if number not in self.values and not any(other.number == number for other in self._running):
                if self._given[number] >= self._tries:
                    self.lost_for_good[number] = reason
                else:
                    self._waiting.appendleft(number)
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until all is over, `seconds` at most; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.over, seconds)

    def close(self) -> None:
        """Nothing more is given out."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _next(self, device: str) -> int | None:
        if self._waiting:
            return self._waiting.popleft()
        now = self._clock()
        for attempt in self._running:
            number = attempt.number
            alone = sum(other.number == number for other in self._running) == 1
            if alone and attempt.device != device and now - attempt.begun > self._late and number not in self.values:
                return number
        return None
