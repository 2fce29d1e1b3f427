"""Cost models by the auto-scheduler's names: random, boosted trees, or a program's own."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tilewright.autotvm.feature.samples import Features, concatenate
from tilewright.autotvm.model.cost_model import CostModel as OwnModel
from tilewright.autotvm.model.trees_model import TreesModel
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.compat.auto_scheduler.record import RecordReader
from tilewright.compat.auto_scheduler.steps import SKETCH
from tilewright.compat.auto_scheduler.workload import workload_key_to_tensors


class CostModel:
    """A model that scores states. `own` is this compiler's model behind it, None where there is none."""

    own: OwnModel | None = None


class RandomModel(CostModel):
    """Any number: all states are alike."""

    def __init__(self) -> None:
        self._generator = Random(0)

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Nothing is learned."""

    def predict(self, search_task: Any, states: Sequence[Any]) -> list[float]:
        """A number for each state."""
        return [self._generator.random() for _ in states]


class PythonBasedModel(CostModel):
    """A model that a program writes: the higher a prediction, the faster the state."""

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn from measurements."""
        raise NotImplementedError

    def predict(self, task: Any, states: Sequence[Any]) -> list[float]:
        """A number for each state."""
        raise NotImplementedError


class XGBModel(CostModel):
    """Boosted trees over what loops do; trained by every search that is given it, or from logs."""

    def __init__(
        self,
        verbose_eval: int = 25,
        num_warmup_sample: int = 100,
        seed: int | None = None,
        model_file: str | None = None,
        adaptive_training: bool = False,
    ) -> None:
        self.own: TreesModel = TreesModel(seed or 0)
        self._given: dict[str, list[tuple[int, float]]] = {}
        self._tasks: dict[str, SketchTask] = {}
        if model_file is not None and os.path.exists(model_file):
            self.load(model_file)

    def update(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Learn from measurements of sketches, beside those of before."""
        for inp, res in zip(inputs, results, strict=True):
            steps = inp.state.transform_steps
            if res.error_no or len(steps) != 1 or steps[0][0] != SKETCH:
                continue
            key = inp.task.workload_key
            point = self._task(key, inp.task.target).points.find(steps[0][1])
            if point is not None:
                self._given.setdefault(key, []).append((point, float(np.mean(res.costs))))
        parts = [
            Features(self._tasks[key], guess=True).of([p for p, _ in timed]).timed([s for _, s in timed])
            for key, timed in self._given.items()
        ]
        if parts and sum(map(len, parts)) > 1:
            self.own.fit(concatenate(parts))

    def update_from_file(self, file_name: str, n_lines: int | None = None) -> None:
        """Learn from a log, of workloads that are registered here."""
        self.update(*RecordReader(file_name).read_lines(n_lines))

    def _task(self, key: str, target: Any) -> SketchTask:
        if key not in self._tasks:
            self._tasks[key] = SketchTask(workload_key_to_tensors(key), target)
        return self._tasks[key]

    def predict(self, task: Any, states: Sequence[Any]) -> list[float]:
        """A number for each state that a search made: the logarithm of its speed."""
        points = [task.sketch.points.find(state.transform_steps[0][1]) for state in states]
        mean, _ = self.own.score(Features(task.sketch, guess=True).of(points))
        return [float(value) for value in mean]

    def save(self, file_name: str) -> None:
        """Keep what was learned."""
        Path(file_name).write_text(json.dumps(self.own.to_json()))

    def load(self, file_name: str) -> None:
        """Take up what was kept."""
        self.own = TreesModel.from_json(json.loads(Path(file_name).read_text()))
