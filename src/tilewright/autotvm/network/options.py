"""Options of tuning a network, its observers, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.network.settle import Verdict
from tilewright.autotvm.tuner.explorers import KNOBS
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.records.database import Database
from tilewright.target import Target


@dataclass(frozen=True)
class TuneOptions:
    """The budget and options of tuning: it ends after `seconds` have passed or `trials` were measured, whichever comes
    first.

    With neither, until tuning no longer pays. `batch` configurations of a task are measured at a time. `model` is what
    the explorer that learns does it by (`make_explorer`). With `sketches` kernels without choices of a template are
    tuned too.
    """

    seconds: float | None = None
    trials: int | None = None
    explorer: str = "auto"
    model: str = KNOBS
    batch: int = 8
    seed: int = 0
    sketches: bool = True
    measure: MeasureOptions = field(default_factory=MeasureOptions)


class Watcher:
    """Who looks on; every method may be overridden."""

    def begin(self, tuners: Sequence[TaskTuner]) -> None:
        """Tuning begins."""

    def step(self, tuner: TaskTuner, trials: Sequence[Trial], seconds_left: float) -> None:
        """A batch was measured."""

    def note(self, line: str) -> None:
        """Something that a user should know."""

    def end(self, result: TuneResult) -> None:
        """All is done."""


@dataclass(frozen=True)
class TuneResult:
    """The result of tuning a network. `trials` were measured in `seconds`; `interrupted` says that a user ended it.

    `failures` counts configurations that did not work, by kind and reason; `before` are those chosen by default.
    """

    target: Target
    verdict: Verdict
    tuners: Sequence[TaskTuner]
    trials: int
    seconds: float
    failures: dict[tuple[str, str], int]
    interrupted: bool = False

    @property
    def records(self) -> Database:
        """The verdict as records, for `tw.compile`."""
        return Database(self.verdict.entries, "what was tuned")
