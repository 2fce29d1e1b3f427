"""Two networks run in turns, beside a copy of the first as control: which is the faster, and how sure that is.

    comparison = compare(default, tuned, copy_of_default, inputs, seconds=5)
    comparison.faster    # True only where the interval of the ratio lies above that of the control

On a busy machine two equal programs differ by tens of percent from one minute to the next, so a ratio alone says
nothing. Each round times all three; of the rounds' ratios the median counts, with an interval that holds it in 99 of
100 cases whatever their distribution is (from order statistics, by the binomial distribution). Rounds that follow each
other are disturbed alike, so the interval is of the medians of blocks of rounds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.runtime.profile import KernelTime
from tilewright.support.load import other_load


class Network(Protocol):
    """A model in memory, here or on a device elsewhere."""

    def time(self, inputs: Mapping[str, Any], repeat: int = 10, warmup: int = 1) -> list[float]:
        """Seconds of each of `repeat` runs."""

    def profile(self, inputs: Mapping[str, Any], repeat: int = 1) -> Sequence[KernelTime]:
        """Seconds of each kernel. Raises `UnsupportedError` where they cannot be measured."""


#: Rounds of a comparison, as far as there is time; the fewest are of a network that takes seconds, and the least number
#: whose least and largest ratio but one bound the median with the confidence below.
ROUNDS, FEWEST = 400, 12

#: A comparison ends after so many times the seconds it was planned for: one begun in a quiet moment of a busy machine
#: would otherwise take minutes.
_OVERTIME = 2.0

#: Blocks of rounds that an interval is taken from, at most.
_BLOCKS = 24

#: How often an interval may miss the median.
_MISSES = 0.01

#: The second network has to be faster by at least this share: a record is not worth less.
_LEAST_GAIN = 0.005


@dataclass(frozen=True)
class Interval:
    """The median of a ratio and the bounds between which it lies with 99 % confidence."""

    low: float
    median: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Comparison:
    """Median seconds of a run of two networks, the first over the second as a ratio, and the first over its copy.

    `load` says in a sentence that the machine was busy, "" if it was not.
    """

    first: float
    second: float
    gain: Interval
    control: Interval
    load: str = ""

    @property
    def faster(self) -> bool:
        """True if the second is faster than the first by more than the control (the copy) differs."""
        return self.gain.low > max(1.0, self.control.high) + _LEAST_GAIN


def compare(first: Network, second: Network, copy: Network, inputs: Mapping[str, Any], seconds: float) -> Comparison:
    """Run two networks and a `copy` of the first in turns for about so many seconds."""
    networks = (first, second, copy)
    one = max(network.time(inputs, repeat=1)[0] for network in networks)
    times: list[list[float]] = [[], [], []]
    with other_load() as load:
        for done in rounds(one, len(networks), seconds):
            for turn in range(len(networks)):
                which = (done + turn) % len(networks)
                # the run before it brings back what the others drove out of the caches
                times[which] += networks[which].time(inputs, repeat=1, warmup=1)
    a, b, control = (np.array(taken) for taken in times)
    gains = median_interval(a / b), median_interval(a / control)
    return Comparison(float(np.median(a)), float(np.median(b)), *gains, load.note)


def rounds(one: float, networks: int, seconds: float) -> Iterator[int]:
    """The numbers of the rounds of a comparison, as many as planned or, beyond the fewest, as there is time for."""
    end = time.monotonic() + _OVERTIME * seconds
    for done in range(round_count(one, networks, seconds)):
        if done >= FEWEST and time.monotonic() > end:
            return
        yield done


def round_count(one: float, networks: int, seconds: float) -> int:
    """Rounds in which each network runs twice, of `one` second a run, that fit into so many seconds."""
    return int(min(ROUNDS, max(FEWEST, seconds / (2 * networks * max(one, 1e-6)))))


def median_interval(ratios: Sequence[float] | np.ndarray[Any, Any]) -> Interval:
    """The median of ratios in the order in which they were measured, and its interval."""
    blocks = np.array_split(np.asarray(ratios, float), min(_BLOCKS, len(ratios)))
    middles = sorted(float(np.median(block)) for block in blocks)
    skipped = _outside(len(middles))
    return Interval(middles[skipped], float(np.median(ratios)), middles[-1 - skipped])


def _outside(count: int) -> int:
    """The number of `count` sorted values that may be left out at each end for the rest to hold the median."""
    missed, skipped = 0.0, -1
    while skipped + 1 < count // 2:
        missed += 2 * math.comb(count, skipped + 1) / 2**count
        if missed > _MISSES:
            break
        skipped += 1
    return max(0, skipped)
