"""Model-guided exploration: a cost model trained on the measurements ranks the next candidates.

A batch is made of what the model ranks first, chosen so that it is not one neighbourhood, of neighbours of the best
point so far, and of a few points at random, which keep the model honest. It begins with the points that the analytic
model ranks first, or where there is a model of other tasks with those that this one does; before there is enough to
learn from, the ranking is theirs.

What the model sees is the knobs and the analytic terms of a point, which costs nothing, so that all of a space are
ranked; or the loops of it (`View.loops`), which takes milliseconds a point: then some hundred are ranked, the
analytic model's first ones, neighbours of the fastest and some from anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.samples import Samples, knob_samples
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.model.cost_model import CostModel, Transferred
from tilewright.autotvm.model.trees_model import TreesModel, require_xgboost
from tilewright.autotvm.task.points import Points
from tilewright.autotvm.task.task import Task
from tilewright.autotvm.tuner.annealing import best_points
from tilewright.autotvm.tuner.explorer import Explorer, diverse
from tilewright.autotvm.tuner.features import features_of

#: Trials from which on the model is trained, and by how many they must have grown for it to be trained again.
_ENOUGH, _MORE = 8, 4

#: What of a batch comes from around the best point, and from anywhere; and what doubt is worth.
_NEAR, _ANYWHERE, _CURIOSITY = 0.25, 0.1, 0.3

#: Points that are ranked where looking at one takes time: first ones of the analytic model, and others from anywhere.
_FIRST_ONES, _OTHERS = 96, 32


@dataclass(frozen=True)
class View:
    """A model's view of points: their samples; `all_points` says that it is cheap enough to see all of them."""

    samples: Callable[[Sequence[int]], Samples]
    all_points: bool = True

    @classmethod
    def knobs(cls, points: Points) -> View:
        """Knobs and analytic terms."""
        return cls(lambda which: knob_samples(points, which))

    @classmethod
    def loops(cls, task: Task, measurer: Measurer | None = None) -> View:
        """Features of the loops and analytic terms, extracted by the builders of `measurer` if given."""
        return cls(features_of(task, measurer).of, all_points=False)


class ModelExplorer(Explorer):
    """By default boosted trees that rank, on the residual of the analytic model, by knobs; raises `EnvironmentError_`
    where they need what is not installed. `general` returns a model of other tasks to begin with, or None.
    """

    name = "xgb"

    def __init__(
        self,
        points: Points,
        generator: Random | None = None,
        first: int = 8,
        model: CostModel | None = None,
        view: View | None = None,
        general: Callable[[], CostModel | None] = lambda: None,
    ) -> None:
        super().__init__(points, generator)
        if model is None:
            require_xgboost()
            model = TreesModel(seed=self.generator.randrange(1 << 30))
        self.first, self.model, self.view = first, model, view or View.knobs(points)
        self._general: Callable[[], CostModel | None] | None = general
        self._learned = 0
        self._others: list[int] | None = None

    @property
    def _informed(self) -> bool:
        """True if the model knows more than the prior."""
        return self.model.trained

    def propose(self, count: int) -> list[int]:
        if self._general is not None and count > 0:
            general, self._general = self._general(), None
            if general is not None:
                self.model = Transferred(general, self.model)
        found = super().propose(count)
        if self._informed and found:
            self.guesses |= dict(zip(found, self._score(found).tolist()))
        return found

    def _candidates(self, count: int) -> Iterator[int]:
        begins = not self.trials
        if len(self.trials) < self.first and not self._informed:
            expected = self.points.best_expected(self.first)
            yield from self._contrasted(expected, count) if begins else expected
        self._train()
        if not self._informed and not self.points.expected(0):
            yield from self.unseen()
        ranked = self._ranked()
        if begins:
            yield from self._contrasted(ranked, count)
        anywhere, near = round(_ANYWHERE * count), round(_NEAR * count)
        yield from diverse(self.points, ranked, count - near - anywhere)
        neighbours = [p for trial in self.fastest(2) for p in self.points.neighbours(trial.point) if p not in self.seen]
        if neighbours:
            scores = self._score(neighbours)
            yield from [neighbours[i] for i in np.argsort(-scores, kind="stable")[:near]]
        for _, point in zip(range(anywhere), self.unseen()):
            yield point
        yield from ranked
        yield from self.unseen()

    def _contrasted(self, ranked: Sequence[int], count: int) -> list[int]:
        """The first of `ranked` for a first batch of `count`, the last positions to the first one with each knob of two
        values the other way: what a prior gets wrong of such a knob would not show among points that it likes."""
        if not ranked:
            return []
        position = self.points.position(ranked[0])
        other: list[int] = []
        for knob, size in enumerate(self.points.knobs.values()):
            if size == 2:
                found = self.points.at((*position[:knob], 1 - position[knob], *position[knob + 1 :]))
                other += [] if found is None or found in ranked[: count // 2] else [found]
        other = other[: count // 2]
        return [*[point for point in ranked if point not in other][: count - len(other)], *other]

    def _ranked(self) -> list[int]:
        """Points that were not measured, the most promising first."""
        if self.view.all_points:
            starts = [trial.point for trial in self.fastest(16)]
            ranked = best_points(self.points, self._score, starts, self.generator)
        else:
            if self._others is None:
                self._others = [self.points.random(self.generator) for _ in range(_OTHERS)]
            near = [point for trial in self.fastest(4) for point in self.points.neighbours(trial.point)]
            some = list(dict.fromkeys([*self.points.best_expected(_FIRST_ONES), *near, *self._others]))
            scores = self._score(some)
            ranked = [some[i] for i in np.argsort(-scores, kind="stable")]
        return [point for point in ranked if point not in self.seen]

    def _train(self) -> None:
        timed = [trial for trial in self.trials if trial.seconds is not None]
        if len(timed) < _ENOUGH or len(timed) < self._learned + _MORE:
            return
        self.model.fit(self.timed_samples())
        self._learned = len(timed)

    def timed_samples(self) -> Samples:
        """The measured trials as samples of the model's view."""
        timed = [trial for trial in self.trials if trial.seconds is not None]
        samples = self.view.samples([trial.point for trial in timed])
        return samples.timed([float(trial.seconds or 0.0) for trial in timed])

    def _score(self, which: Sequence[int]) -> NDArray[np.float32]:
        mean, doubt = self.model.score(self.view.samples(which))
        return np.asarray(mean + _CURIOSITY * doubt, np.float32)
