"""What cost models learn from and judge by: configurations of tasks with their features, and times where known.

samples = Features(task).of([0, 5, 17])                  # lowered once each, and kept
samples.rows, samples.trees, samples.prior
together = concatenate([samples.timed(seconds), …])      # of several tasks: groups tell which rows compare
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.knobs import TERM_FEATURES, knob_features, term_features
from tilewright.autotvm.feature.loops import LOOP_FEATURES, LoopFeatures, LoopTree, loop_features
from tilewright.autotvm.task.points import Points
from tilewright.autotvm.task.task import Task
from tilewright.errors import TilewrightError
from tilewright.machine import Machine, machine_of
from tilewright.tir.op import const
from tilewright.tir.stmt import Evaluate, PrimFunc

#: The name of each column of `Samples.rows`: what the analytic model says, then what the loops do.
ROW_FEATURES = (*TERM_FEATURES, *LOOP_FEATURES)


@dataclass(frozen=True)
class Samples:
    """Configurations: `rows` of features, and `trees` of loops where they were read (else none).

    `prior` is what was thought of each before anything was learned, the logarithm of its speed by the analytic model, 0
    where there is none. `seconds` were measured; `groups` has a number for each row, equal for those of one task.
    """

    rows: NDArray[np.float32]
    trees: tuple[LoopTree, ...]
    prior: NDArray[np.float32]
    seconds: NDArray[np.float32]
    groups: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.rows)

    def timed(self, seconds: Sequence[float] | NDArray[np.floating]) -> Samples:
        """The same with what was measured."""
        return replace(self, seconds=np.asarray(seconds, np.float32))

    def take(self, which: Sequence[int] | NDArray[np.intp]) -> Samples:
        """Some of the rows."""
        trees = tuple(self.trees[number] for number in which) if self.trees else ()
        return Samples(self.rows[which], trees, self.prior[which], self.seconds[which], self.groups[which])

    def with_prior(self, prior: NDArray[np.float32]) -> Samples:
        """The same with another first guess."""
        return replace(self, prior=prior)


def concatenate(parts: Sequence[Samples]) -> Samples:
    """Samples of several tasks, each a group of its own."""
    groups = [np.full(len(part), number, np.int32) for number, part in enumerate(parts)]
    rows, prior, seconds = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("rows", "prior", "seconds")
    )
    return Samples(rows, tuple(tree for part in parts for tree in part.trees), prior, seconds, np.concatenate(groups))


def knob_samples(points: Points, which: Sequence[int]) -> Samples:
    """Samples of points by their knobs and the analytic terms alone, which takes no lowering; without trees."""
    return _samples(knob_features(points, which), (), points, which)


def _samples(rows: NDArray[np.float32], trees: tuple[LoopTree, ...], points: Points, which: Sequence[int]) -> Samples:
    expected = np.array([points.expected(point) for point in which], np.float32)
    prior = np.where(expected > 0, -np.log(np.maximum(expected, 1e-12)), 0.0).astype(np.float32)
    return Samples(rows, trees, prior, np.zeros(len(rows), np.float32), np.zeros(len(rows), np.int32))


class Features:
    """The features of a task's points, each read off its loops when it is first asked for."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.machine: Machine = getattr(task.target, "machine", None) or machine_of("x86-64-v3")
        self._known: dict[int, LoopFeatures] = {}

    def of(self, points: Sequence[int]) -> Samples:
        """Samples of `points`, without times."""
        loops = [self._loops(point) for point in points]
        terms = term_features(self.task.points, points)
        rows = np.concatenate([terms, np.stack([one.row for one in loops])], axis=1)
        return _samples(rows, tuple(one.tree for one in loops), self.task.points, points)

    def _loops(self, point: int) -> LoopFeatures:
        if point not in self._known:
            try:
                func = self.task.loops(self.task.points.config(point))
            except TilewrightError:  # measuring it will say why
                func = PrimFunc("nothing", (), Evaluate(const(0)))
            self._known[point] = loop_features(func, self.machine)
        return self._known[point]
