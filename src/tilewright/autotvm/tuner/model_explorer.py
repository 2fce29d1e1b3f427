"""The explorer that learns: a cost model trained on what was measured says what to measure next.

A batch is made of what the model ranks first, chosen so that it is not one neighbourhood, of neighbours of the best
point so far, and of a few points at random, which keep the model honest. It begins with the points that the analytic
model ranks first; before there is enough to learn from, its ranking is the analytic one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np

from tilewright.autotvm.feature.knobs import knob_features
from tilewright.autotvm.model.rank_model import RankModel, require_xgboost
from tilewright.autotvm.model.trees import Floats
from tilewright.autotvm.task.points import Points
from tilewright.autotvm.tuner.annealing import best_points
from tilewright.autotvm.tuner.explorer import Explorer, diverse

#: Trials from which on the model is trained, and by how many they must have grown for it to be trained again.
_ENOUGH, _MORE = 12, 6

#: What of a batch comes from around the best point, and from anywhere; and what doubt is worth.
_NEAR, _ANYWHERE, _CURIOSITY = 0.25, 0.1, 0.3


class ModelExplorer(Explorer):
    """Boosted trees that rank, on the residual of the analytic model. Needs xgboost; raises `EnvironmentError_`."""

    name = "xgb"

    def __init__(self, points: Points, generator: Random | None = None, first: int = 8) -> None:
        super().__init__(points, generator)
        require_xgboost()
        self.first, self.model = first, RankModel(seed=self.generator.randrange(1 << 30))
        self._learned = 0

    def propose(self, count: int) -> list[int]:
        found = super().propose(count)
        if self._learned and found:
            self.guesses |= dict(zip(found, self._score(found).tolist()))
        return found

    def _candidates(self, count: int) -> Iterator[int]:
        if len(self.trials) < self.first:
            yield from self.points.best_expected(self.first)
        self._train()
        starts = [trial.point for trial in self.fastest(16)]
        ranked = [p for p in best_points(self.points, self._score, starts, self.generator) if p not in self.seen]
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

    def _train(self) -> None:
        timed = [trial for trial in self.trials if trial.seconds is not None]
        if len(timed) < _ENOUGH or len(timed) < self._learned + _MORE:
            return
        which = [trial.point for trial in timed]
        seconds = np.array([trial.seconds for trial in timed], np.float32)
        self.model.fit(knob_features(self.points, which), seconds, self._expected(which), [0] * len(which))
        self._learned = len(timed)

    def _score(self, which: Sequence[int]) -> Floats:
        mean, doubt = self.model.score(knob_features(self.points, which), self._expected(which))
        return mean + _CURIOSITY * doubt

    def _expected(self, which: Sequence[int]) -> Floats:
        return np.array([self.points.expected(point) for point in which], np.float32)
