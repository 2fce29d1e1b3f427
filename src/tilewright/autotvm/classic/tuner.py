"""Tuners by their classic names: `RandomTuner(task).tune(n_trial, measure_option, callbacks=[…])`.

Each is an explorer of `tuner/` behind the classic interface; `next_batch`, `update`, `has_next` and `load_history` may
be called by programs that measure in their own way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from tilewright.autotvm.classic.callback import Callback, logger
from tilewright.autotvm.classic.cost_model import XGBoostCostModel
from tilewright.autotvm.classic.measure import (
    MeasureErrorNo,
    MeasureInput,
    MeasureResult,
    create_measure_batch,
)
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.task.points import Points, Position
from tilewright.autotvm.tuner.explorer import Explorer, GeneticExplorer, GridExplorer, RandomExplorer
from tilewright.autotvm.tuner.model_explorer import ModelExplorer
from tilewright.errors import InputError
from tilewright.records.entry import RUN


class Tuner:
    """Tries configurations of `task`; `best_config` and `best_flops` are of the fastest."""

    def __init__(self, task: Any, explorer: Explorer | None = None) -> None:
        self.task = task
        self.explorer = explorer if explorer is not None else RandomExplorer(task.points)
        self.best_config: Any = None
        self.best_flops = 0.0
        self.best_measure_pair: tuple[MeasureInput, MeasureResult] | None = None
        self.best_iter = self.ttl = 0
        self._waiting: list[int] = []

    def has_next(self) -> bool:
        """True while there are configurations that were not tried."""
        if not self._waiting:
            self._waiting = self.explorer.propose(1)
        return bool(self._waiting)

    def next_batch(self, batch_size: int) -> list[Any]:
        """Up to `batch_size` configurations to try next."""
        points = [*self._waiting, *self.explorer.propose(batch_size - len(self._waiting))]
        self._waiting = []
        return [self.task.config_space.get(point) for point in points]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn what configurations took."""
        self.explorer.learn(_trial(inp, result) for inp, result in zip(inputs, results))

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learn from (input, result) pairs of before, those of this task."""
        for inp, result in data_set:
            plain = {name: [code, data] for name, code, data in inp.config.to_json_dict()["entity"]}
            point = self.explorer.points.find(plain) if inp.task.name == self.task.name else None
            if point is not None:
                self.explorer.learn([_trial(inp, result, point)])

    def reset(self) -> None:
        """Forget which configuration was best."""
        self.best_config, self.best_flops, self.best_measure_pair = None, 0.0, None

    def tune(
        self,
        n_trial: int,
        measure_option: dict[str, Any],
        early_stopping: int | None = None,
        callbacks: Sequence[Callback] = (),
        si_prefix: str = "G",
    ) -> None:
        """Try up to `n_trial` configurations, fewer where `early_stopping` of them in a row bring nothing better."""
        if not isinstance(measure_option, dict):
            raise InputError(
                "tune takes what autotvm.measure_option(builder=…, runner=…) returns as its measure_option"
            )
        measure, done = create_measure_batch(self.task, measure_option), 0
        try:
            while done < n_trial and self.has_next():
                configs = self.next_batch(min(measure.n_parallel, n_trial - done))
                inputs = [MeasureInput(self.task.target, self.task, config) for config in configs]
                results = measure(inputs)
                for offset, (inp, result) in enumerate(zip(inputs, results)):
                    self._judge(inp, result, done + offset)
                done += len(results)
                self.ttl = max(done, early_stopping + self.best_iter) - done if early_stopping else 0
                self.update(inputs, results)
                for callback in callbacks:
                    callback(self, inputs, results)
                if early_stopping and done >= self.best_iter + early_stopping:
                    logger.debug("Early stopped. Best iter: %d.", self.best_iter)
                    break
        finally:
            measure.close()

    def _judge(self, inp: MeasureInput, result: MeasureResult, number: int) -> None:
        works = result.error_no == MeasureErrorNo.NO_ERROR
        flops = self.task.flop / (sum(result.costs) / len(result.costs)) if works else 0.0
        if flops > self.best_flops:
            self.best_flops, self.best_config = flops, inp.config
            self.best_measure_pair, self.best_iter = (inp, result), number
        logger.debug(
            "No: %d\tGFLOPS: %.2f/%.2f\tresult: %s\t%s",
            number + 1,
            flops / 1e9,
            self.best_flops / 1e9,
            result,
            inp.config,
        )


def _trial(inp: MeasureInput, result: MeasureResult, point: int | None = None) -> Trial:
    works = result.error_no == MeasureErrorNo.NO_ERROR
    return Trial(
        inp.config.index if point is None else point,
        {},
        sum(result.costs) / len(result.costs) if works else None,
        failure="" if works else RUN,
        time=result.timestamp,
    )


class IndexTuner(Tuner):
    """Tries the configurations from `range_idx[0]` to `range_idx[1]` only, both included, where that is given.

    `counter` of the `range_length` configurations from `index_offset` on were tried; `visited` are their numbers.
    """

    def __init__(self, task: Any, explorer: Any, range_idx: tuple[int, int] | None) -> None:
        first, last = range_idx if range_idx is not None else (0, len(task.points) - 1)
        if not 0 <= first <= last < len(task.points):
            raise InputError(
                f"range_idx={range_idx} is not within the {len(task.points)} configurations of {task.name}"
            )
        self.index_offset, self.range_length = first, last + 1 - first
        self.visited: set[int] = set()
        super().__init__(
            task, explorer(task.points if range_idx is None else _Part(task.points, first, last), Random())
        )

    @property
    def counter(self) -> int:
        """The number of configurations proposed so far."""
        return len(self.visited)

    def next_batch(self, batch_size: int) -> list[Any]:
        """Up to `batch_size` configurations to try next."""
        points = [*self._waiting, *self.explorer.propose(batch_size - len(self._waiting))]
        self._waiting = []
        self.visited |= {point + self.index_offset for point in points}
        return [self.task.config_space.get(point + self.index_offset) for point in points]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn what configurations took."""
        pairs = zip(inputs, results)
        self.explorer.learn(_trial(inp, result, inp.config.index - self.index_offset) for inp, result in pairs)


class _Part(Points):
    """The points from `first` to `last` of others, numbered from 0."""

    def __init__(self, points: Points, first: int, last: int) -> None:
        self._points, self._first, self._count = points, first, last + 1 - first
        self.knobs = points.knobs

    def __len__(self) -> int:
        return self._count

    def config(self, point: int) -> Any:
        return self._points.config(self._first + point)

    def position(self, point: int) -> Position:
        return self._points.position(self._first + point)

    def at(self, position: Position) -> int | None:
        return self._inside(self._points.at(position))

    def find(self, config: Any) -> int | None:
        return self._inside(self._points.find(config))

    def plain(self, point: int) -> Mapping[str, Any]:
        return self._points.plain(self._first + point)

    def expected(self, point: int) -> float:
        return self._points.expected(self._first + point)

    def _inside(self, point: int | None) -> int | None:
        return point - self._first if point is not None and 0 <= point - self._first < self._count else None


class RandomTuner(IndexTuner):
    """Configurations at random."""

    def __init__(self, task: Any, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task, RandomExplorer, range_idx)


class GridSearchTuner(IndexTuner):
    """One configuration after the other."""

    def __init__(self, task: Any, range_idx: tuple[int, int] | None = None) -> None:
        super().__init__(task, GridExplorer, range_idx)


class GATuner(Tuner):
    """A genetic algorithm."""

    def __init__(self, task: Any, pop_size: int = 100, elite_num: int = 3, mutation_prob: float = 0.1) -> None:
        population = min(pop_size, max(1, len(task.points) // 2))
        super().__init__(task, GeneticExplorer(task.points, Random(), population, elite_num, mutation_prob))


class XGBTuner(Tuner):
    """Boosted trees that rank, and simulated annealing over them.

    `cost_model` is what `load_history` trains, and with a history what tuning goes by. Without one tuning sees the
    values of knobs, which costs nothing, and of the options `plan_size` and below make no difference.
    Raises `EnvironmentError_` without xgboost.
    """

    def __init__(
        self,
        task: Any,
        plan_size: int = 64,
        feature_type: str = "itervar",
        loss_type: str = "reg",
        num_threads: int | None = None,
        optimizer: Any = "sa",
        diversity_filter_ratio: float | None = None,
        log_interval: int = 50,
    ) -> None:
        super().__init__(task, ModelExplorer(task.points, Random()))
        self.plan_size = plan_size
        self.cost_model = XGBoostCostModel(task, feature_type, loss_type, num_threads, log_interval // 2)
        self.xs: list[int] = []
        self.ys: list[float] = []
        self.visited: set[int] = set()
        self.flops_max = 0.0

    def next_batch(self, batch_size: int) -> list[Any]:
        """Up to `batch_size` configurations to try next."""
        configs = super().next_batch(batch_size)
        self.visited |= {config.index for config in configs}
        return configs

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn what configurations took: `ys` has operations a second of `xs`, 0 of what failed."""
        super().update(inputs, results)
        for inp, result in zip(inputs, results):
            works = result.error_no == MeasureErrorNo.NO_ERROR
            self.xs.append(inp.config.index)
            self.ys.append(self.task.flop / (sum(result.costs) / len(result.costs)) if works else 0.0)
            self.visited.add(inp.config.index)
        self.flops_max = max([self.flops_max, *self.ys[len(self.ys) - len(inputs) :]])

    def load_history(self, data_set: Iterable[tuple[MeasureInput, MeasureResult]], min_seed_records: int = 500) -> None:
        """Learn from (input, result) pairs of before: those of this task, and where there are as many as
        `min_seed_records` those of all templates as the model to begin with."""
        pairs = [*data_set]
        super().load_history(pairs, min_seed_records)
        if self.cost_model.feature_type == "knob":
            return
        base = self.cost_model.spawn_base_model()
        if base.fit_log(pairs, self.plan_size, min_seed_records):
            self.cost_model.load_basemodel(base)
            assert isinstance(self.explorer, ModelExplorer)
            self.explorer.model, self.explorer.view = self.cost_model.learner, self.cost_model.view

    def reset(self) -> None:
        """Forget which configuration was best, and what was measured."""
        super().reset()
        self.xs, self.ys, self.visited, self.flops_max = [], [], set(), 0.0
