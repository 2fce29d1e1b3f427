"""Comparison of two configurations in turns, wherever they run: numbers of calls, when to stop, who is ahead.

Blocks of calls of the candidate, the incumbent and the reference loop alternate, so that what disturbs the machine
meets all of them; of each the tenth percentile is reported, which other programs on the machine move least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tilewright.autotvm.measure.options import MeasureOptions

#: A candidate is given up when after so many rounds its best block is so many times as long as the incumbent's.
HOPELESS = ((3, 1.3), (8, 1.1))

#: Comparisons that a faster configuration has to win after the first.
_CONFIRMATIONS = 2


@dataclass(frozen=True)
class Timing:
    """Seconds of a call of the candidate, the incumbent and the reference loop: tenth percentiles over `blocks` blocks.

    `wins` is the share of the rounds in which the candidate was the faster one, `typical` the ratio of the medians.
    """

    candidate: float
    incumbent: float
    loop: float
    wins: float
    typical: float
    blocks: int

    @property
    def ratio(self) -> float:
        """The candidate's time over the incumbent's: the larger ratio of tenth percentiles and of medians.

        On a quiet machine they agree. On a busy one a few blocks decide either: what disturbed the incumbent alone is
        no gain of the candidate's.
        """
        return max(self.candidate / self.incumbent, self.typical)


class Comparing(Protocol):
    """A position where configurations are compared; `Compiled` or whatever else names code there."""

    def check(self, code: Any) -> None:
        """Run a configuration once. Raises `WrongResult` where its results are not the reference's."""

    def compare(self, candidate: Any, incumbent: Any, blocks: int, patient: bool = False) -> Timing:
        """Time a candidate in turns with the incumbent; one that is clearly slower shortly, unless `patient`."""

    def forget(self) -> None:
        """Load what is compared anew next time."""


def calls_a_block(once: float, options: MeasureOptions) -> int:
    """The number of calls of `once` seconds that are timed together."""
    return max(1, int(options.block_seconds / max(once, 1e-9)))


def block_count(wanted: int, round_seconds: float, options: MeasureOptions) -> int:
    """The number of timed blocks of each candidate: `wanted`, or fewer if calls are long."""
    return min(wanted, max(options.fewest_blocks, int(options.compare_seconds / max(round_seconds, 1e-9))))


def is_hopeless(candidate: Sequence[float], incumbent: Sequence[float]) -> bool:
    """True if the blocks so far are enough to abandon the candidate."""
    done = len(candidate)
    return any(done == rounds and min(candidate) > worse * min(incumbent) for rounds, worse in HOPELESS)


def timing_of(candidate: Sequence[float], incumbent: Sequence[float], loop: Sequence[float]) -> Timing:
    """The timing from the seconds of all blocks. Of few blocks the tenth percentile is the least: nothing lies between
    them, and a disturbed one would count.
    """
    wins = sum(a < b for a, b in zip(candidate, incumbent, strict=True)) / len(candidate)
    ours, other, clock = (float(np.quantile(taken, 0.1, method="lower")) for taken in (candidate, incumbent, loop))
    typical = float(np.median(candidate) / np.median(incumbent))
    return Timing(ours, other, clock, wins, typical, len(candidate))


def judge(stand: Comparing, candidate: Any, incumbent: Any, options: MeasureOptions) -> tuple[Timing, bool]:
    """The time of a candidate, and whether it is to be the incumbent (None: there is none). Raises `WrongResult`."""
    if options.check:
        stand.check(candidate)
    if incumbent is None:
        return stand.compare(candidate, candidate, options.blocks, patient=True), True
    timing = stand.compare(candidate, incumbent, options.blocks)
    for _ in range(_CONFIRMATIONS):
        if not _better(timing, options):
            return timing, False
        stand.forget()  # where code and memory happen to lie makes a difference that does not last
        timing = stand.compare(candidate, incumbent, 2 * options.blocks, patient=True)
    return timing, _better(timing, options)


def _better(timing: Timing, options: MeasureOptions) -> bool:
    """True if a comparison has the candidate ahead; one that was given up has not."""
    below = 1 - options.gain
    return timing.ratio < below and timing.typical < below and timing.wins >= options.wins
