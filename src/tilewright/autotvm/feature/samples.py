"""Samples for cost models: configurations of tasks with their features, and times where known.

samples = Features(task).of([0, 5, 17])                  # lowered once each, and kept
samples.rows, samples.trees, samples.prior
together = concatenate([samples.timed(seconds), …])      # of several tasks: groups tell which rows compare
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
    """The features of a task's points, each read off its loops on first use.

    `read` does that elsewhere, as for many points at once in the processes of a `Measurer` (default: here, one by one).
    With `guess` the prior is what the loops themselves would take, for tasks that no analytic model knows.
    """

    def __init__(
        self, task: Task, read: Callable[[Sequence[int]], Sequence[LoopFeatures]] | None = None, guess: bool = False
    ) -> None:
        self.task, self.guess = task, guess
        self._read = read or (lambda points: [read_loops(task, point) for point in points])
        self._known: dict[int, LoopFeatures] = {}

    def of(self, points: Sequence[int]) -> Samples:
        """Samples of `points`, without times."""
        new = [point for point in dict.fromkeys(points) if point not in self._known]
        self._known |= dict(zip(new, self._read(new), strict=True))
        loops = [self._known[point] for point in points]
        terms = term_features(self.task.points, points)
        rows = np.concatenate([terms, np.stack([one.row for one in loops])], axis=1)
        made = _samples(rows, tuple(one.tree for one in loops), self.task.points, points)
        return made.with_prior(_guessed(rows)) if self.guess else made


def read_loops(task: Task, point: int) -> LoopFeatures:
    """The features of a configuration's loops; those of an empty function where it has none, as measuring it will say
    why.
    """
    try:
        return loop_features(task.loops(task.points.config(point)), _machine(task))
    except TilewrightError:
        return read_nothing(task)


def read_nothing(task: Task) -> LoopFeatures:
    """The features of a function without loops."""
    return loop_features(PrimFunc("nothing", (), Evaluate(const(0))), _machine(task))


def _machine(task: Task) -> Machine:
    return getattr(task.target, "machine", None) or machine_of("x86-64-v3")


def _guessed(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The logarithm of speed by the cycles of all loops, shared evenly among the workers that have some."""
    cycles = rows[:, ROW_FEATURES.index("cycles")]
    waste = np.log2(np.maximum(rows[:, ROW_FEATURES.index("parallel_waste")], 1.0))
    worst = np.where(rows[:, ROW_FEATURES.index("statements")] > 0, 0.0, 64.0)
    return np.asarray(-math.log(2) * (cycles + waste + worst), np.float32)
