"""Timing several engines in one process: in interleaved rounds, and what is told of the times.

times = measure({"ours": run, "theirs": other}, seconds=5.0, rounds=1000)
print(*timing_lines([Timing.of(name, "1.0", taken) for name, taken in times.items()]), sep="\n")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Calls of one engine in a row that count, in each round.
TIMED_CALLS = 3


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one inference, over `calls` timed calls, and how many run in a second, one after another."""

    engine: str
    version: str
    minimum_ms: float
    median_ms: float
    p90_ms: float
    p99_ms: float
    per_second: float
    calls: int

    @classmethod
    def of(cls, engine: str, version: str, seconds: Sequence[float]) -> Timing:
        """From the seconds of each call."""
        low, p50, p90, p99 = (float(q) * 1e3 for q in np.quantile(seconds, (0.0, 0.5, 0.9, 0.99)))
        return cls(engine, version, low, p50, p90, p99, len(seconds) / sum(seconds), len(seconds))


def measure(
    runs: dict[str, Callable[[], Any]], seconds: float, rounds: int, begin: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Seconds of each timed call of each run, in interleaved rounds: `rounds` at most, `seconds` in all, five at least.

    The workers of an engine spin for a while after its last call (onnxruntime's do), and would take a core from the
    engine that comes next. So in each round every engine makes one call that is not timed, during which the others'
    workers fall asleep and its own data comes back into the caches, and then `TIMED_CALLS` that are:
    A' A A A B' B B B …

    `begin` is called before each round with its number.
    """
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    deadline = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= 5 and time.perf_counter() > deadline:
            break
        if begin is not None:
            begin(done)
        for name, run in runs.items():
            run()
            for _ in range(TIMED_CALLS):
                start = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - start)
    return times


TIMING_COLUMNS = ("engine", "minimum", "median", "90 %", "99 %", "a second", "minimum / ours")


def timing_cells(timings: Sequence[Timing]) -> list[tuple[str, ...]]:
    """The cells of a line for each engine, ours first."""
    return [
        (
            f"{timing.engine} {timing.version}",
            *(f"{value:.3f} ms" for value in (timing.minimum_ms, timing.median_ms, timing.p90_ms, timing.p99_ms)),
            f"{timing.per_second:.1f}",
            f"{timing.minimum_ms / timings[0].minimum_ms:.2f}",
        )
        for timing in timings
    ]


def timing_lines(timings: Sequence[Timing]) -> Iterator[str]:
    """A line for each engine, the others with how much of ours, the first, their least time is."""
    for timing in timings:
        ratio = f"   {timing.minimum_ms / timings[0].minimum_ms:5.2f}x of ours" if timing is not timings[0] else ""
        yield (
            f"{f'{timing.engine} {timing.version}':28} minimum {timing.minimum_ms:9.3f} ms   "
            f"median {timing.median_ms:9.3f} ms   90 % {timing.p90_ms:9.3f} ms   99 % {timing.p99_ms:9.3f} ms   "
            f"{timing.per_second:9.1f} a second{ratio}"
        )
