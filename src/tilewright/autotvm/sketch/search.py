"""The search through sketches: generations of configurations bred by what a cost model thinks of their loops.

    result = search(SketchTask([a, b, c], "cpu"), trials=64)
    result.config, result.seconds

As in Ansor (OSDI 2020), section 5: a population at random and of the fastest so far, children by mutation of a knob and
by crossover of whole stages, the likelier the better the model thinks of their parents; what is measured trains the
model. Before there is something to learn from, the loops' own traffic ranks.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from tilewright.autotvm.feature.samples import Samples
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.model.cost_model import AnalyticModel, CostModel
from tilewright.autotvm.model.trees_model import TreesModel, has_xgboost
from tilewright.autotvm.sketch.points import SketchPoints
from tilewright.autotvm.sketch.task import SketchTask
from tilewright.autotvm.tuner.explorer import Explorer
from tilewright.autotvm.tuner.features import features_of
from tilewright.autotvm.tuner.task_tuner import TaskTuner
from tilewright.records.entry import Entry

#: Trials from which on the model is trained, and by how many they must have grown for it to be trained again.
_ENOUGH, _MORE = 12, 6

#: The first population and later ones, generations bred of each, and what of it is the fastest that were measured.
_FIRST, _LATER, _GENERATIONS, _ELITE = 128, 48, 3, 12

#: What a point is thought to be slower by, in units of the score, for each other of its tiles: they take alike.
_SAME_TILES = 0.1

#: Of a batch, what is from anywhere; of children, those with one parent.
_ANYWHERE, _MUTANTS = 0.15, 0.6


class SketchExplorer(Explorer):
    """Evolution over a model of the loops. `samples` returns what that sees of points."""

    name = "evolution"

    def __init__(
        self,
        points: SketchPoints,
        generator: Random | None = None,
        samples: Callable[[Sequence[int]], Samples] | None = None,
        model: CostModel | None = None,
    ) -> None:
        super().__init__(points, generator)
        self.sketches, self.samples = points, samples
        self.model = model or (TreesModel(seed=self.generator.randrange(1 << 30)) if has_xgboost() else AnalyticModel())
        self._learned = 0

    def _candidates(self, count: int) -> Iterator[int]:
        if self.samples is None:
            yield from self.unseen()
        self._train()
        scores = self._evolved()
        ranked = sorted((point for point in scores if point not in self.seen), key=lambda point: -scores[point])
        anywhere = round(_ANYWHERE * count) if self.trials else 0
        for point in self._spread(ranked[: 16 * count], scores, count - anywhere):
            self.guesses[point] = scores[point]
            yield point
        for _, point in zip(range(anywhere), self.unseen()):
            yield point
        yield from ranked
        yield from self.unseen()

    def _spread(self, ranked: Sequence[int], scores: dict[int, float], count: int) -> list[int]:
        """`count` points by score, each the less worth the more of the same tiles are measured or chosen."""
        known = Counter(self.sketches.tiles(trial.point) for trial in self.trials)
        chosen: list[int] = []
        left = list(ranked)
        while left and len(chosen) < count:
            best = max(left, key=lambda point: scores[point] - _SAME_TILES * known[self.sketches.tiles(point)])
            known[self.sketches.tiles(best)] += 1
            chosen.append(best)
            left.remove(best)
        return chosen

    def _train(self) -> None:
        timed = [trial for trial in self.trials if trial.seconds is not None]
        if self.samples is None or len(timed) < max(_ENOUGH, self._learned + _MORE):
            return
        samples = self.samples([trial.point for trial in timed])
        self.model.fit(samples.timed([float(trial.seconds or 0.0) for trial in timed]))
        self._learned = len(timed)

    def _evolved(self) -> dict[int, float]:
        """The model's scores of the members of all generations."""
        size = min(_LATER if self.trials else _FIRST, self.sketches.size)
        members = [trial.point for trial in self.fastest(_ELITE)]
        members += [self.points.random(self.generator) for _ in range(size - len(members))]
        scores = self._scored(members)
        for _ in range(_GENERATIONS):
            parents = sorted(scores, key=lambda point: -scores[point])[:size]
            best = scores[parents[0]]
            weights = [math.exp(max(-40.0, 2 * (scores[point] - best))) for point in parents]
            children = [self._child(parents, weights) for _ in range(size // 2)]
            scores |= self._scored([child for child in children if child not in scores])
        return scores

    def _child(self, parents: Sequence[int], weights: Sequence[float]) -> int:
        first, second = self.generator.choices(parents, weights, k=2)
        if first == second or self.generator.random() < _MUTANTS:
            return self.points.mutated(first, self.generator)
        return self.sketches.crossed(first, second, self.generator)

    def _scored(self, points: Sequence[int]) -> dict[int, float]:
        own = list(dict.fromkeys(points))
        if not own or self.samples is None:
            return dict.fromkeys(own, 0.0)
        mean, doubt = self.model.score(self.samples(own))
        return dict(zip(own, np.asarray(mean + 0.3 * doubt).tolist()))


@dataclass(frozen=True)
class Found:
    """The result of a search: the best configuration with its seconds, and all trials."""

    task: SketchTask
    config: dict[str, Any] | None
    seconds: float
    trials: Sequence[Trial]
    failures: dict[tuple[str, str], int]


def search(
    task: SketchTask,
    trials: int = 64,
    options: MeasureOptions | None = None,
    seed: int = 0,
    batch: int = 8,
    record: Callable[[Entry], None] = lambda entry: None,
    known: Sequence[Entry] = (),
    model: CostModel | None = None,
    seconds: float = float("inf"),
    learned: bool = True,
) -> Found:
    """Measure up to `trials` configurations of a task, for up to `seconds`; not `learned`, at random.

    Raises `TargetError` where this machine cannot run code for the task's target.
    """
    task.check_runs_here()
    done: list[Trial] = []
    end = time.monotonic() + seconds
    with Measurer([task], options) as measurer:
        samples = features_of(task, measurer, guess=True).of if learned else None
        explorer = SketchExplorer(task.points, Random(seed), samples, model)
        tuner = TaskTuner(task, measurer, explorer, record, known, patience=1 << 30)
        while len(done) < trials and not tuner.finished and time.monotonic() < end:
            done += tuner.step(min(batch, trials - len(done)))
        best = tuner.best
        failures = dict(measurer.failures)
    return Found(task, None if best is None else task.points.config(best.point), tuner.seconds, done, failures)
