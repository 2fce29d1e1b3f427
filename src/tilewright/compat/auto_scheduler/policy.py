"""Search policies: which states of a task are measured.

policy = SketchPolicy(task, XGBModel(), init_search_callbacks=[PreloadMeasuredStates("log.json")])
policy.search(64, None, 16, measurer)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from types import MappingProxyType
from typing import Any

from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.sketch.points import SketchPoints
from tilewright.autotvm.sketch.search import SketchExplorer
from tilewright.autotvm.tuner.explorer import Explorer, RandomExplorer
from tilewright.autotvm.tuner.features import features_of
from tilewright.autotvm.tuner.model_explorer import ModelExplorer, View
from tilewright.compat.auto_scheduler.cost_model import CostModel, RandomModel, XGBModel
from tilewright.compat.auto_scheduler.measure import TuningOptions
from tilewright.compat.auto_scheduler.record import load_records
from tilewright.compat.auto_scheduler.rules import APPLY, APPLY_AND_SKIP_REST, PASS, RuleTask
from tilewright.compat.auto_scheduler.state import State
from tilewright.compat.auto_scheduler.steps import SKETCH
from tilewright.errors import InputError

#: The largest number of states of `generate_sketches`: one for each choice of rules, its tiles any.
_SKETCHES = 16


class SearchCallback:
    """A callback before a search."""


class PreloadMeasuredStates(SearchCallback):
    """States of a log that are not measured again."""

    def __init__(self, filename: str) -> None:
        self.filename = filename


class PreloadCustomSketchRule(SearchCallback):
    """A rule of a program's own: `meet_condition_func(policy, state, stage)` says whether it takes a stage,
    `apply_func` returns pairs of a state and the stage to go on with. A search with rules knows only what they make."""

    PASS, APPLY, APPLY_AND_SKIP_REST = PASS, APPLY, APPLY_AND_SKIP_REST

    def __init__(self, meet_condition_func: Any, apply_func: Any, rule_name: str = "CustomSketchRule") -> None:
        self.meet_condition_func, self.apply_func, self.rule_name = meet_condition_func, apply_func, rule_name


class SearchPolicy:
    """`search_task` and how to search it."""

    def __init__(self, search_task: Any, init_search_callbacks: Sequence[SearchCallback] | None = None) -> None:
        self.search_task, self.callbacks = search_task, list(init_search_callbacks or ())
        self.verbose = 1
        self._explorer: Explorer | None = None

    def explorer(self, measurer: Any) -> Explorer:
        """An explorer of the task's points that has learned from logs; one for all of a policy's searches."""
        if self._explorer is None:
            self._explorer = self.made_explorer(measurer)
            for callback in self.callbacks:
                if isinstance(callback, PreloadMeasuredStates):
                    self._explorer.learn(_measured(self.search_task, callback.filename))
        return self._explorer

    def made_explorer(self, measurer: Any) -> Explorer:
        """A new explorer."""
        return RandomExplorer(self.own.points)

    @property
    def own(self) -> Any:
        """This compiler's task that is searched."""
        return self.search_task.own

    def learned(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """A batch was measured."""

    def set_verbose(self, verbose: int) -> None:
        """Set the amount of output."""
        self.verbose = verbose

    def search(
        self, num_measure_trials: int, early_stopping: int | None, num_measures_per_round: int, measurer: Any = None
    ) -> State | None:
        """Measure states; the best, None where none works."""
        self.search_task.tune(
            TuningOptions(num_measure_trials, early_stopping, num_measures_per_round, self.verbose), self
        )
        return self.search_task.best_state


class EmptyPolicy(SearchPolicy):
    """Any states."""


class SketchPolicy(SearchPolicy):
    """Sketches: generations bred by what `program_cost_model` thinks of them (default: at random)."""

    DEFAULT_PARAMS: Mapping[str, Any] = MappingProxyType({"sample_init_min_population": 50})

    def __init__(
        self,
        task: Any,
        program_cost_model: CostModel | None = None,
        params: dict[str, Any] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] | None = None,
    ) -> None:
        super().__init__(task, init_search_callbacks)
        self.model = program_cost_model or RandomModel()
        self.generator, self.verbose = Random(seed or 0), verbose
        self.rules = [one for one in self.callbacks if isinstance(one, PreloadCustomSketchRule)]

    @cached_property
    def by_rules(self) -> RuleTask:
        """The states that rules of the program make."""
        return RuleTask(self.search_task, self, self.rules, self.generator)

    @property
    def own(self) -> Any:
        return self.by_rules if self.rules else self.search_task.own

    def made_explorer(self, measurer: Any) -> Explorer:
        task = self.search_task
        if self.rules:
            return self._explorer_of_rules(measurer)
        if task.sketch is None:
            return task.network_explorer(self.generator)
        if isinstance(self.model, RandomModel):
            return SketchExplorer(task.sketch.points, self.generator)
        if isinstance(self.model, XGBModel):
            samples = features_of(task.sketch, measurer, guess=True).of
            return SketchExplorer(task.sketch.points, self.generator, samples, self.model.own)
        return _ByStates(task, self.model, self.generator)

    def _explorer_of_rules(self, measurer: Any) -> Explorer:
        if isinstance(self.model, RandomModel):
            return RandomExplorer(self.by_rules.points, self.generator)
        if isinstance(self.model, XGBModel):
            view = View.loops(self.by_rules, measurer)
            return ModelExplorer(self.by_rules.points, self.generator, model=self.model.own, view=view)
        return _RulesByStates(self.by_rules, self.search_task, self.model)

    def learned(self, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        if not isinstance(self.model, RandomModel | XGBModel):
            self.model.update(inputs, results)  # type: ignore[attr-defined]

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """A state for each choice of rules, its tiles any; of rules of the program their states."""
        if self.rules:
            return list(self.by_rules.sketches)
        points = self._points()
        chosen: dict[tuple[Any, ...], State] = {}
        for _ in range(8 * _SKETCHES):
            point = points.random(self.generator)
            config = points.config(point)
            rules = tuple(value for name, value in config.items() if name.rpartition(".")[2] in ("at", "shares"))
            if rules not in chosen and len(chosen) < _SKETCHES:
                chosen[rules] = self._state(point)
        if print_for_debug:
            for state in chosen.values():
                print(state)
        return list(chosen.values())

    def sample_initial_population(self) -> list[State]:
        """States at random."""
        if self.rules:
            made = self.by_rules.points
            return [self.search_task.state(made.config(p)) for p in range(min(len(made), self._population))]
        points = self._points()
        return [self._state(points.random(self.generator)) for _ in range(self._population)]

    @property
    def _population(self) -> int:
        return int(self.DEFAULT_PARAMS["sample_init_min_population"])

    def evolutionary_search(self, init_populations: Sequence[State], out_size: int) -> list[State]:
        """`out_size` states bred of others."""
        points = self._points()
        parents = [points.find(state.transform_steps[0][1]) for state in init_populations]
        known = [point for point in parents if point is not None]
        if not known:
            raise InputError("evolutionary_search takes states that sample_initial_population gave")
        children = [points.mutated(self.generator.choice(known), self.generator) for _ in range(4 * out_size)]
        best = children
        if not isinstance(self.model, RandomModel):
            scores = self.model.predict(self.search_task, [self._state(child) for child in children])  # type: ignore[attr-defined]
            best = [children[i] for i in sorted(range(len(children)), key=lambda i: -scores[i])]
        return [self._state(point) for point in best[:out_size]]

    def _points(self) -> SketchPoints:
        if self.search_task.sketch is None:
            raise InputError(f"{self.search_task.desc}: a network's kernel is tuned by its template, not by sketches")
        points: SketchPoints = self.search_task.sketch.points
        return points

    def _state(self, point: int) -> State:
        state: State = self.search_task.state(self._points().plain(point))
        return state


class _ByStates(SketchExplorer):
    """Evolution over what a program's own model says of states."""

    def __init__(self, task: Any, model: Any, generator: Random) -> None:
        super().__init__(task.sketch.points, generator)
        self.task, self.judge = task, model

    def _candidates(self, count: int) -> Iterator[int]:
        scores = self._evolved()
        yield from sorted(scores, key=lambda point: -scores[point])
        yield from self.unseen()

    def _scored(self, points: Sequence[int]) -> dict[int, float]:
        own = list(dict.fromkeys(points))
        states = [self.task.state(self.points.plain(point)) for point in own]
        return dict(zip(own, map(float, self.judge.predict(self.task, states)))) if own else {}


class _RulesByStates(RandomExplorer):
    """A program's own model that scores the states of rules."""

    def __init__(self, own: RuleTask, task: Any, model: Any) -> None:
        super().__init__(own.points)
        self.task, self.judge = task, model

    def _candidates(self, count: int) -> Iterator[int]:
        left = [point for point in range(len(self.points)) if point not in self.seen]
        scores = self.judge.predict(self.task, [self.task.state(self.points.config(point)) for point in left])
        yield from (point for _, point in sorted(zip(map(float, scores), left), reverse=True))


def _measured(task: Any, filename: str) -> list[Trial]:
    """The trials that a log has of a task."""
    found = []
    for inp, res in load_records(filename):
        steps = inp.state.transform_steps
        if inp.task.workload_key != task.workload_key or len(steps) != 1 or steps[0][0] != SKETCH:
            continue
        point = task.own.points.find(steps[0][1])
        if point is not None:
            cost = sum(res.costs) / len(res.costs)
            found.append(
                Trial(point, steps[0][1], None if res.error_no else cost, failure="run" if res.error_no else "")
            )
    return found
