"""The tuned kernels that a network keeps: the tuned network against the default one, run in turns.

Kernels are measured one at a time, and in a network they may do otherwise: its caches hold other things. So each tuned
kernel is timed where it runs, in both networks in turns, and those that do not pay take the default again. What is left
is compared as a whole, and kept only if it is the faster one: a tuned network is never slower.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilewright.autotvm.network.compare import Comparison, Network, compare, rounds
from tilewright.errors import UnsupportedError
from tilewright.records.database import Database
from tilewright.records.entry import VERDICT, Entry, TaskKey

#: A kernel stays tuned where the network spends at least this share less in it.
_KERNEL_GAIN = 0.005

#: Runs of a network that is compared with none.
_ALONE = 12


@dataclass(frozen=True)
class Verdict:
    """The result of the comparison: seconds of a run by default and tuned, the tasks that stay tuned, and those that do
    not.

    `entries` are what records are to say of it; `comparison` is what was measured, None where there was nothing to
    compare.
    """

    default_seconds: float
    tuned_seconds: float
    kept: tuple[TaskKey, ...]
    rolled_back: tuple[TaskKey, ...]
    entries: tuple[Entry, ...]
    comparison: Comparison | None = None

    @property
    def speedup(self) -> float:
        """The speed of the tuned network relative to the default; 1 where nothing stays tuned."""
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
    found: Comparison | None = None
    if kept:
        found = compare(default, build(Database(kept.values())), build(Database()), inputs, seconds / 2)
        times = (found.first, found.second) if found.faster else (found.first, found.first)
        kept = kept if found.faster else {}
    else:
        alone = float(np.median(default.time(inputs, repeat=_ALONE)))
        times = (alone, alone)
    verdicts = [
        replace(entry, kind=VERDICT, config=entry.config if key in kept else None) for key, entry in best.items()
    ]
    return Verdict(*times, tuple(kept), tuple(key for key in best if key not in kept), tuple(verdicts), found)


def settle_layouts(
    verdict: Verdict,
    layouts: Entry,
    plain: Network,
    copy: Network,
    build: Callable[[Database], Network],
    inputs: Mapping[str, Any],
    seconds: float,
) -> Verdict:
    """The verdict of a network with other `layouts`, compared with it as the compiler has it (`plain`, and a `copy`).

    Where that is as fast neither the layouts stay nor what was tuned for them.
    """
    tuned = build(Database([entry for entry in verdict.entries if entry.config is not None]))
    found = compare(plain, tuned, copy, inputs, seconds)
    times = found.first, found.second
    if found.faster:
        entries = (layouts, *verdict.entries)
        return Verdict(*times, verdict.kept, verdict.rolled_back, entries, found)
    entries = tuple(replace(entry, kind=VERDICT, config=None) for entry in (layouts, *verdict.entries))
    return Verdict(times[0], times[0], (), (*verdict.kept, *verdict.rolled_back), entries, found)


def _paying(
    default: Network,
    tuned: Network,
    best: dict[TaskKey, Entry],
    kernels: Mapping[str, TaskKey],
    inputs: Mapping[str, Any],
    seconds: float,
) -> dict[TaskKey, Entry]:
    """Those of `best` in whose kernels the network spends less time."""
    times: tuple[dict[TaskKey, list[float]], dict[TaskKey, list[float]]] = (defaultdict(list), defaultdict(list))
    for done in rounds(default.time(inputs, repeat=1)[0], 2, seconds):
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
