"""The cost model of the classic XGBTuner by its classic interface, on this package's boosted trees.

model = XGBoostCostModel(task, feature_type="itervar", loss_type="rank")
model.fit_log(load_from_file("others.log"), plan_size=64)     # also of other tasks
model.fit([0, 5, 17], [1.2e9, 0.0, 3.4e9], plan_size=64)      # configurations by number, operations a second
model.predict([1, 2, 3])                                      # the higher the faster
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.classic.measure import MeasureErrorNo, MeasureInput, MeasureResult
from tilewright.autotvm.feature.samples import Features, Samples, concatenate
from tilewright.autotvm.model.cost_model import CostModel, Transferred
from tilewright.autotvm.model.trees_model import TreesModel, require_xgboost
from tilewright.autotvm.task.task import Task
from tilewright.autotvm.template.template import TASK_TABLE, create
from tilewright.autotvm.tuner.model_explorer import View
from tilewright.errors import InputError, TilewrightError

#: What a model can see of a configuration: its loops under either classic name, or the values of its knobs alone.
FEATURE_TYPES = ("itervar", "curve", "knob")
LOSS_TYPES = ("rank", "reg")

#: Of the fastest the share that a configuration that does not run counts as.
_FAILED = 1e-3

Pairs = Iterable[tuple[MeasureInput, MeasureResult]]


class XGBoostCostModel:
    """Boosted trees that tell fast configurations of `task` from slow ones; on top of those of `base_model`, if any.

    Raises `InputError` for an unknown `feature_type` or `loss_type`, `EnvironmentError_` without xgboost.
    """

    def __init__(
        self,
        task: Any,
        feature_type: str = "itervar",
        loss_type: str = "rank",
        num_threads: int | None = None,
        log_interval: int = 25,
        upper_model: XGBoostCostModel | None = None,
    ) -> None:
        for given, known in ((feature_type, FEATURE_TYPES), (loss_type, LOSS_TYPES)):
            if given not in known:
                raise InputError(f"XGBoostCostModel has no {given!r}; there are: {', '.join(known)}")
        require_xgboost()
        self.task, self.feature_type, self.loss_type = task, feature_type, loss_type
        self.num_threads, self.log_interval, self.upper_model = num_threads, log_interval, upper_model
        self.base_model: XGBoostCostModel | None = None
        self.learner: CostModel = self._trees()
        self.view = View.knobs(task.points) if feature_type == "knob" else View.loops(task)

    def _trees(self) -> TreesModel:
        return TreesModel(by_pairs=self.loss_type == "rank")

    def fit(self, xs: Sequence[int], ys: Sequence[float], plan_size: int) -> None:
        """Learn what the configurations `xs` reach, in operations a second; 0 of one that does not run."""
        speeds = np.asarray(ys, np.float64)
        if len(speeds) and speeds.max() > 0:
            self.learner.fit(_timed(self.view.samples([int(x) for x in xs]), speeds))

    def fit_log(self, records: Pairs, plan_size: int, min_seed_records: int = 500) -> bool:
        """Learn from (input, result) pairs of any task; False, and nothing, where there are fewer than that many.

        Those of templates that this program does not have, or that fit no task of theirs, do not count.
        """
        parts = [part for part in self._parts(records) if len(part) > 1]
        if sum(map(len, parts)) < min_seed_records:
            return False
        if parts:
            self.learner.fit(concatenate(parts))
        return bool(parts)

    def predict(self, xs: Sequence[int], output_margin: bool = False) -> NDArray[np.float32]:
        """A score of each configuration, of the logarithm of its speed but for a constant."""
        return self.learner.score(self.view.samples([int(x) for x in xs]))[0]

    def load_basemodel(self, base_model: XGBoostCostModel) -> None:
        """Begin with what `base_model` has learned, and learn what it gets wrong."""
        if base_model.feature_type == "knob" or self.feature_type == "knob":
            raise InputError(
                "XGBoostCostModel: models that see knobs alone are of one task; use feature_type='itervar'"
            )
        self.base_model = base_model
        self.learner = Transferred(base_model.learner, self._trees())

    def spawn_base_model(self) -> XGBoostCostModel:
        """A model of this kind that has learned nothing."""
        return XGBoostCostModel(self.task, self.feature_type, self.loss_type, self.num_threads, self.log_interval, self)

    def _parts(self, records: Pairs) -> list[Samples]:
        """The measured configurations and times, by task."""
        by_task: dict[Task, dict[int, float]] = defaultdict(dict)
        tasks: dict[str, Task | None] = {}
        for inp, result in records:
            name = repr((str(inp.target), inp.task.name, inp.task.args))
            if name not in tasks:
                tasks[name] = self._task_of(inp)
            task = tasks[name]
            plain = {key: [code, data] for key, code, data in inp.config.to_json_dict()["entity"]}
            point = None if task is None else task.points.find(plain)
            if task is not None and point is not None:
                works = result.error_no == MeasureErrorNo.NO_ERROR
                by_task[task][point] = task.flops / float(np.mean(result.costs)) if works else 0.0
        found = []
        for task, speeds in by_task.items():
            samples = self.view.samples if task is self.task else Features(task).of
            found.append(_timed(samples([*speeds]), np.array([*speeds.values()])))
        return found

    def _task_of(self, inp: MeasureInput) -> Task | None:
        """The task of a record, by which its loops are made again; None where that cannot be."""
        own = (inp.task.name, inp.task.args) == (self.task.name, self.task.args)
        if own or self.feature_type == "knob":
            return self.task if own else None
        try:
            return create(inp.task.name, inp.task.args, inp.target) if inp.task.name in TASK_TABLE else None
        except TilewrightError:
            return None


def _timed(samples: Samples, speeds: NDArray[np.float64]) -> Samples:
    """Samples with times in units of the fastest's."""
    return samples.timed(speeds.max(initial=1e-9) / np.maximum(speeds, speeds.max(initial=1e-9) * _FAILED))
