"""Transfer between the tasks of a network: a general model of all that was measured so far.

    pool = TransferPool("trees")
    explorer = make_explorer(..., general=pool.general)      # asked when the task has its first batch
    pool.add(explorer)

Records of the same tasks on other processors are learned from too: their loops are read as that processor has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilewright.autotvm.feature.samples import Features, Samples, concatenate
from tilewright.autotvm.model.cost_model import CostModel
from tilewright.autotvm.model.models import make_model
from tilewright.autotvm.task.task import OUTPUT, KernelTask
from tilewright.autotvm.tuner.model_explorer import ModelExplorer
from tilewright.errors import TilewrightError
from tilewright.records.entry import TRIAL, Entry
from tilewright.target import Target

#: Measurements from which on there is a general model, and by how many more it is trained again.
_ENOUGH, _MORE = 48, 96

#: Measurements of one task on another processor that are read, the fastest first: reading one takes milliseconds.
_FOREIGN = 24


class TransferPool:
    """The explorers of a network's tasks, and the model `name` trained on what they measured."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name, self.seed = name, seed
        self._explorers: list[ModelExplorer] = []
        self._foreign: list[Samples] = []
        self._model: CostModel | None = None
        self._learned = 0

    def add(self, explorer: ModelExplorer) -> None:
        """That of a task, whose measurements are learned from."""
        self._explorers.append(explorer)

    def add_foreign(self, tasks: Iterable[KernelTask], entries: Mapping[str, Iterable[Entry]]) -> None:
        """Add the entries of these tasks from other processors."""
        for task in tasks:
            for processor, known in entries.items():
                samples = foreign_samples(task, processor, [entry for entry in known if entry.task == task.key])
                if samples is not None:
                    self._foreign.append(samples)

    def general(self) -> CostModel | None:
        """The current general model; None if there are too few samples."""
        parts = [*self._foreign, *(e.timed_samples() for e in self._explorers if _timed(e) > 1)]
        count = sum(map(len, parts))
        if self.name == "analytic" or count < _ENOUGH:
            return None
        if self._model is None or count >= self._learned + _MORE:
            self._model, self._learned = make_model(self.name, self.seed), count
            self._model.fit(concatenate(parts))
        return self._model


def _timed(explorer: ModelExplorer) -> int:
    return sum(trial.seconds is not None for trial in explorer.trials)


def foreign_samples(task: KernelTask, processor: str, entries: Iterable[Entry]) -> Samples | None:
    """Samples of a task as another processor has measured it; None where too little of it is in today's space."""
    try:
        roles = [argument.role for argument in task.arguments if argument.role != OUTPUT]
        there = KernelTask(task.name, task.function, Target(processor), roles)
        times: dict[int, float] = {}
        for entry in sorted((e for e in entries if e.kind == TRIAL and e.seconds), key=lambda e: e.seconds or 0.0):
            point = there.points.find(entry.config)
            if point is not None and len(times) < _FOREIGN:
                times.setdefault(point, entry.seconds or 0.0)
    except (TilewrightError, AssertionError):
        return None
    if len(times) < 2:
        return None
    return Features(there).of(list(times)).timed(list(times.values()))
