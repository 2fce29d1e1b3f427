"""Timing several engines in one process: in interleaved rounds, and the statistics of their times.

measured = measure({"ours": run, "theirs": other}, seconds=5.0, rounds=1000)
print(*timing_lines([Timing.of(name, "1.0", taken) for name, taken in measured.times.items()]), sep="\n")
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.support.load import other_load

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

    def ratios(self, other: Timing) -> tuple[float, float]:
        """The minimum and the median over those of another engine."""
        return self.minimum_ms / other.minimum_ms, self.median_ms / other.median_ms


@dataclass(frozen=True)
class Measured:
    """Seconds of each timed call by run, a sentence where the machine was busy, and whether an interrupt ended it."""

    times: dict[str, list[float]]
    load: str = ""
    interrupted: bool = False


def measure(
    runs: dict[str, Callable[[], Any]],
    seconds: float,
    rounds: int,
    begin: Callable[[int], None] | None = None,
    clocks: Mapping[str, Callable[[int], list[float]]] | None = None,
) -> Measured:
    """Time the calls of each run, in interleaved rounds: `rounds` at most, `seconds` in all, five at least.

    The workers of an engine spin for a while after its last call (onnxruntime's do), and would take a core from the
    engine that comes next. So in each round every engine makes one call that is not timed, during which the others'
    workers fall asleep and its own data comes back into the caches, and then `TIMED_CALLS` that are:
    A' A A A B' B B B …

    Runs in other processes have `clocks` of their own, functions of the number of calls.

    `begin` is called before each round with its number. An interrupt ends the rounds early: what the whole ones took
    counts, and only before the first of them is it raised.
    """
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    deadline = time.perf_counter() + seconds
    done = 0
    with other_load() as load:
        try:
            while done < rounds and (done < 5 or time.perf_counter() <= deadline):
                if begin is not None:
                    begin(done)
                for name, run in runs.items():
                    run()
                    clock = (clocks or {}).get(name)
                    times[name] += clock(TIMED_CALLS) if clock else [_seconds(run) for _ in range(TIMED_CALLS)]
                done += 1
            interrupted = False
        except KeyboardInterrupt:
            if not done:
                raise
            interrupted = True
    whole = {name: taken[: done * TIMED_CALLS] for name, taken in times.items()}
    return Measured(whole, load.note, interrupted)


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


TIMING_COLUMNS = ("engine", "minimum", "median", "90 %", "99 %", "a second", "minimum / ours", "median / ours")

#: The columns that a narrow terminal does without, in the order in which they go.
TIMING_SPARE = ("99 %", "90 %", "a second", "minimum / ours", "minimum")


def timing_cells(timings: Sequence[Timing]) -> list[tuple[str, ...]]:
    """The cells of a line for each engine, ours first."""
    return [
        (
            f"{timing.engine} {timing.version}",
            *(f"{value:.3f} ms" for value in (timing.minimum_ms, timing.median_ms, timing.p90_ms, timing.p99_ms)),
            f"{timing.per_second:.1f}",
            *(f"{ratio:.2f}" for ratio in timing.ratios(timings[0])),
        )
        for timing in timings
    ]


def timing_lines(timings: Sequence[Timing]) -> Iterator[str]:
    """A line for each engine, the others with how much of ours, the first, their least and their median time is."""
    for timing in timings:
        minima, medians = timing.ratios(timings[0])
        ratio = f"   {minima:5.2f}x of ours ({medians:.2f}x by medians)" if timing is not timings[0] else ""
        yield (
            f"{f'{timing.engine} {timing.version}':28} minimum {timing.minimum_ms:9.3f} ms   "
            f"median {timing.median_ms:9.3f} ms   90 % {timing.p90_ms:9.3f} ms   99 % {timing.p99_ms:9.3f} ms   "
            f"{timing.per_second:9.1f} a second{ratio}"
        )
