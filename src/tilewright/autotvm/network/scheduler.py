"""The choice of the next task of a network: the one whose next batch is expected to save the network the most time.

As in Ansor (OSDI 2020, section 6), by the gradient of the network's time: what a task has gained of late, and what it
may still gain by the analytic model, times the calls of it, over the seconds that a batch of it takes. Every task has
its turn once before any has a second one, but those that take long to begin, which have to be worth it. The more of the
network's time a task takes, the longer it may bring nothing before it is left.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.tuner.task_tuner import PATIENCE, TaskTuner

#: The share of what is left to the roofline that a batch is hoped to gain, halved by every batch that gained nothing.
_HOPE = 0.1

#: A task that takes this share of the network's time may have twice as many batches without gain as one that takes
#: none of it, one of two such shares thrice, up to so many times.
_WORTH_PATIENCE, _MOST_PATIENT = 0.02, 4


@dataclass
class _Spent:
    """The effort put into a task: seconds and batches, and the best time after each of these."""

    seconds: float = 0.0
    bests: list[float] = field(default_factory=list)


class TaskScheduler:
    """Hands batches of `batch` trials to `tuners`, whose tasks a run of the network calls `calls` times each."""

    def __init__(self, tuners: Sequence[TaskTuner], calls: Sequence[int], batch: int = 8) -> None:
        self.tuners, self.batch = list(tuners), batch
        self._calls = dict(zip(map(id, tuners), calls, strict=True))
        self._spent = {id(tuner): _Spent() for tuner in tuners}

    @property
    def finished(self) -> bool:
        """True if no task has anything left to do."""
        return all(tuner.finished for tuner in self.tuners)

    def seconds(self) -> float:
        """The tasks' share of a run of the network, in seconds."""
        return sum(self._calls[id(tuner)] * tuner.seconds for tuner in self.tuners if tuner.history)

    def step(self, batch: int | None = None) -> tuple[TaskTuner, list[Trial]]:
        """One batch for the task that is worth it most: it, and the trials."""
        tuner = max((t for t in self.tuners if not t.finished), key=self.worth)
        spent, begun = self._spent[id(tuner)], time.monotonic()
        trials = tuner.step(self.batch if batch is None else batch)
        spent.seconds += time.monotonic() - begun
        spent.bests.append(tuner.seconds)
        self._be_patient()
        return tuner, trials

    def _be_patient(self) -> None:
        """Have tasks end after the more batches without gain, the more of the network's time they take."""
        whole = self.seconds()
        for tuner in self.tuners:
            if tuner.history and math.isfinite(whole):
                share = self._calls[id(tuner)] * tuner.seconds / whole
                tuner.patience = round(PATIENCE * min(_MOST_PATIENT, 1 + share / _WORTH_PATIENCE))

    def worth(self, tuner: TaskTuner) -> float:
        """Seconds of a run that a second of tuning is expected to save; of a task not begun, more than of any other."""
        spent, calls = self._spent[id(tuner)], self._calls[id(tuner)]
        if not spent.bests:
            expected, begin = tuner.task.points.expected(tuner.task.default or 0), tuner.task.begin_seconds
            if begin:
                return calls * _HOPE * max(0.0, expected - tuner.task.roofline) / begin
            return 1e6 * (1.0 + calls * expected)
        window = spent.bests[-3:]
        gained = (window[0] - window[-1]) / max(1, len(window) - 1)
        hoped = _HOPE * tuner.left * 0.5**tuner.idle_steps
        return calls * max(gained, hoped) / (spent.seconds / len(spent.bests))


def run(
    scheduler: TaskScheduler,
    seconds: float | None,
    trials: int | None,
    tell: Callable[[TaskTuner, list[Trial], float], None],
) -> int:
    """Work until everything is done, `seconds` have passed or `trials` were measured; how many were.

    `tell` gets the task, its trials and the seconds left after each batch.
    """
    end = time.monotonic() + (float("inf") if seconds is None else seconds)
    done = 0
    while not scheduler.finished and time.monotonic() < end and (trials is None or done < trials):
        batch = scheduler.batch if trials is None else min(scheduler.batch, trials - done)
        tuner, measured = scheduler.step(batch)
        done += len(measured)
        tell(tuner, measured, end - time.monotonic())
    return done
