"""Tuning one task: batches of points from an explorer, measured, recorded, until it no longer pays.

    tuner = TaskTuner(task, measurer, make_explorer("auto", task.points), record=file.append, known=entries)
    while not tuner.finished:
        tuner.step(8)
    tuner.best, tuner.default_seconds

What records of an earlier run know is not measured again, but for the default and the best, which the times of the two
runs are made comparable by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.task.task import Task
from tilewright.autotvm.tuner.explorer import Explorer
from tilewright.records.entry import TRIAL, Entry, this_compiler

#: Tuning a task ends at this share of its roofline, or after so many batches that brought nothing. One that is faster
#: than its roofline by as much shows that to be none, and it ends nothing.
ROOFLINE_SHARE, PATIENCE = 0.95, 4


@dataclass
class TaskTuner:
    """The state of tuning one task.

    `hints` are points to measure at the very beginning, beside the default. `history` has the best seconds after each
    trial.
    """

    task: Task
    measurer: Measurer
    explorer: Explorer
    record: Callable[[Entry], None] = lambda entry: None
    known: Iterable[Entry] = ()
    hints: Sequence[int] = ()
    patience: int = PATIENCE
    default_seconds: float | None = None
    history: list[float] = field(default_factory=list)
    idle_steps: int = 0
    exhausted: bool = False

    def __post_init__(self) -> None:
        self._known = [trial for entry in self.known if (trial := _trial(self.task, entry)) is not None]
        self._begun = False

    @property
    def best(self) -> Trial | None:
        """The trial of the incumbent."""
        found = self.measurer.incumbents.get(self.task)
        if found is None:
            return None
        return Trial(found.point, self.task.points.plain(found.point), found.seconds, accepted=True)

    @property
    def seconds(self) -> float:
        """The best time in seconds; infinite before anything was measured."""
        found = self.measurer.incumbents.get(self.task)
        return float("inf") if found is None else found.seconds

    @property
    def share(self) -> float:
        """The share of the roofline that the best reaches, at most 1."""
        return min(1.0, self.task.roofline / self.seconds)

    @property
    def left(self) -> float:
        """Seconds that may be gained still: what is between the best and its roofline; of one that is faster, a few."""
        return max(self.seconds - self.task.roofline, (1 - ROOFLINE_SHARE) * self.seconds)

    @property
    def finished(self) -> str:
        """The reason for having finished; "" until then."""
        if not self._begun:
            return ""
        if self.exhausted:
            return "all configurations tried"
        if ROOFLINE_SHARE <= self.task.roofline / self.seconds <= 1 / ROOFLINE_SHARE:
            return "at the roofline"
        return f"{self.idle_steps} batches without gain" if self.idle_steps >= self.patience else ""

    def begin(self) -> list[Trial]:
        """Measure the default, and the best of the records; the rest of those is learned from."""
        self._begun = True
        timed = [trial for trial in self._known if trial.seconds is not None]
        best = min((t for t in timed if t.accepted), key=lambda t: t.seconds or 0.0, default=None)
        first = [] if self.task.default is None else [self.task.default]
        hints = [] if timed else self.hints
        trials = self._measure(list(dict.fromkeys([*first, *([] if best is None else [best.point]), *hints])))
        if first and trials and trials[0].point == first[0] and trials[0].seconds is not None:
            self.default_seconds = trials[0].seconds
        again = {trial.point: trial.seconds for trial in trials if trial.seconds is not None}
        ratios = [again[t.point] / t.seconds for t in timed if t.point in again and t.seconds]
        scale = ratios[-1] if ratios else 1.0
        self.explorer.learn(
            replace(t, seconds=t.seconds * scale if t.seconds else None) for t in self._known if t.point not in again
        )
        return trials

    def step(self, count: int) -> list[Trial]:
        """Measure a batch of `count` points; the trials."""
        trials = [] if self._begun else self.begin()
        before = self.seconds
        points = self.explorer.propose(count)
        self.exhausted = len(points) < count
        trials += self._measure(points)
        if trials or not points:  # what no device took says nothing
            self.idle_steps = 0 if self.seconds < before else self.idle_steps + 1
        return trials

    def _measure(self, points: list[int]) -> list[Trial]:
        trials = self.measurer.measure(self.task, points) if points else []
        for trial in trials:
            self.record(entry_of(self.task, trial))
            self.history.append(self.seconds)
        self.explorer.learn(trials)
        return trials


def entry_of(task: Task, trial: Trial) -> Entry:
    """The record of a trial."""
    return Entry(
        task.key, task.processor, trial.config, trial.seconds, trial.failure, trial.reason, trial.accepted,
        trial.blocks, TRIAL, this_compiler(), trial.time,
    )  # fmt: skip


def _trial(task: Task, entry: Entry) -> Trial | None:
    """The trial that an entry tells of; None for verdicts, and configurations that are not in the space."""
    point = task.points.find(entry.config) if entry.kind == TRIAL and entry.config is not None else None
    if point is None:
        return None
    return Trial(
        point, dict(entry.config or {}), entry.seconds, 1.0, entry.accepted, entry.blocks, entry.failure, entry.reason,
        time=entry.time,
    )  # fmt: skip
