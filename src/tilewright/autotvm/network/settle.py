"""What of tuning a network keeps: the tuned network against the default one, run in turns.

Kernels are measured one at a time, and in a network they may do otherwise: its caches hold other things. So each tuned
kernel is timed where it runs, in both networks in turns, and those that do not pay take the default again. What is left
is compared as a whole, and kept only if it is the faster one: a tuned network is never slower.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tilewright.autotvm.record.database import Database
from tilewright.autotvm.record.entry import VERDICT, Entry, TaskKey
from tilewright.errors import UnsupportedError
from tilewright.runtime.profile import KernelTime


class Network(Protocol):
    """A model in memory, here or on a device elsewhere."""

    def time(self, inputs: Mapping[str, Any], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs."""

    def profile(self, inputs: Mapping[str, Any], repeat: int = 1) -> Sequence[KernelTime]:
        """Seconds of each kernel. Raises `UnsupportedError` where it cannot be told."""


#: Rounds of the comparisons, in each of which both networks run, as far as there is time: of 60 rounds beside other
#: programs the tenth percentile still said of kernels that gain a tenth that they do not. The fewest are of a network
#: that takes seconds.
_ROUNDS, _FEWEST = 400, 12

#: A kernel stays tuned where the network spends at least this share less in it, a network where its time is shorter.
_KERNEL_GAIN = 0.005


@dataclass(frozen=True)
class Verdict:
    """What the comparison found: seconds of a run by default and tuned, which tasks stay tuned, and which do not.

    `entries` are what records are to say of it.
    """

    default_seconds: float
    tuned_seconds: float
    kept: tuple[TaskKey, ...]
    rolled_back: tuple[TaskKey, ...]
    entries: tuple[Entry, ...]

    @property
    def speedup(self) -> float:
        """How many times as fast the tuned network is; 1 where nothing stays tuned."""
        return self.default_seconds / self.tuned_seconds


def settle(
    default: Network,
    build: Callable[[Database], Network],
    best: Mapping[TaskKey, Entry],
    kernels: Mapping[str, TaskKey],
    inputs: Mapping[str, Any],
    seconds: float,
) -> Verdict:
    """Compare, in about `seconds` seconds, the `default` network with the one that has the `best` configurations.

    `build` compiles it with records; `kernels` says which task each kernel is.
    """
    kept = dict(best)
    if kept:
        tuned = build(Database(kept.values()))
        with suppress(UnsupportedError):  # a device that tells no kernels apart: the network is compared as a whole
            kept = _paying(default, tuned, kept, kernels, inputs, seconds / 3)
    times = (1.0, 1.0)
    if kept:
        tuned = build(Database(kept.values()))
        times = compare(default, tuned, inputs, seconds / 2)
        if times[1] >= times[0]:
            kept, times = {}, (times[0], times[0])
    else:
        alone = float(np.quantile(default.time(inputs, repeat=_FEWEST), 0.1))
        times = (alone, alone)
    verdicts = [
        replace(entry, kind=VERDICT, config=entry.config if key in kept else None) for key, entry in best.items()
    ]
    return Verdict(*times, tuple(kept), tuple(key for key in best if key not in kept), tuple(verdicts))


def settle_layouts(
    verdict: Verdict,
    layouts: Entry,
    plain: Network,
    build: Callable[[Database], Network],
    inputs: Mapping[str, Any],
    seconds: float,
) -> Verdict:
    """The verdict of a network with other `layouts`, compared with it as the compiler has it (`plain`).

    Where that is as fast neither the layouts stay nor what was tuned for them.
    """
    tuned = build(Database([entry for entry in verdict.entries if entry.config is not None]))
    times = compare(plain, tuned, inputs, seconds)
    if times[1] < times[0]:
        return replace(verdict, default_seconds=times[0], tuned_seconds=times[1], entries=(layouts, *verdict.entries))
    entries = tuple(replace(entry, kind=VERDICT, config=None) for entry in (layouts, *verdict.entries))
    return Verdict(times[0], times[0], (), (*verdict.kept, *verdict.rolled_back), entries)


def compare(first: Network, second: Network, inputs: Mapping[str, Any], seconds: float) -> tuple[float, float]:
    """Seconds of a run of two networks, run in turns: the tenth percentile of each."""
    one = max(first.time(inputs, repeat=1)[0], second.time(inputs, repeat=1)[0])
    rounds = int(min(_ROUNDS, max(_FEWEST, seconds / (4 * one))))
    times: tuple[list[float], list[float]] = ([], [])
    for done in range(rounds):
        for which in (0, 1) if done % 2 else (1, 0):
            times[which].append(min((first, second)[which].time(inputs, repeat=2, warmup=0)))
    return float(np.quantile(times[0], 0.1)), float(np.quantile(times[1], 0.1))


def _paying(
    default: Network,
    tuned: Network,
    best: dict[TaskKey, Entry],
    kernels: Mapping[str, TaskKey],
    inputs: Mapping[str, Any],
    seconds: float,
) -> dict[TaskKey, Entry]:
    """Those of `best` in whose kernels the network spends less time."""
    one = max(default.time(inputs, repeat=1)[0], 1e-6)
    rounds = int(min(_ROUNDS, max(_FEWEST, seconds / (4 * one))))
    times: tuple[dict[TaskKey, list[float]], dict[TaskKey, list[float]]] = (defaultdict(list), defaultdict(list))
    for done in range(rounds):
        for which in (0, 1) if done % 2 else (1, 0):
            for key, taken in _by_task((default, tuned)[which], kernels, inputs).items():
                times[which][key].append(taken)
    low = [{key: float(np.quantile(taken, 0.1)) for key, taken in side.items()} for side in times]
    return {
        key: entry
        for key, entry in best.items()
        if key in low[0] and key in low[1] and low[1][key] < (1 - _KERNEL_GAIN) * low[0][key]
    }


def _by_task(model: Network, kernels: Mapping[str, TaskKey], inputs: Mapping[str, Any]) -> dict[TaskKey, float]:
    """Seconds that one run spends in the kernels of each task."""
    found: dict[TaskKey, float] = defaultdict(float)
    for row in model.profile(inputs):
        if row.kernel in kernels:
            found[kernels[row.kernel]] += row.seconds
    return found
