"""Simulated annealing over a cost model: many walks side by side through spaces too large to look at every point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from random import Random

import numpy as np

from tilewright.autotvm.model.trees import Floats
from tilewright.autotvm.task.points import Points

#: Walks, steps of each, and the temperatures that they begin and end with, in units of the score.
WALKS, STEPS, _HOT, _COLD = 64, 40, 1.0, 0.02

#: Spaces with no more points are ranked as a whole.
WHOLE = 4096


def best_points(
    points: Points,
    score: Callable[[Sequence[int]], Floats],
    starts: Iterable[int],
    generator: Random,
) -> list[int]:
    """Points by falling score: all of a small space, else those that walks from `starts` and from anywhere came by."""
    if len(points) <= WHOLE:
        every = list(range(len(points)))
        return [every[i] for i in np.argsort(-score(every), kind="stable")]
    walkers = [*dict.fromkeys(starts)][:WALKS]
    walkers += [points.random(generator) for _ in range(WALKS - len(walkers))]
    scores = score(walkers)
    visited = dict(zip(walkers, scores.tolist()))
    for step in range(STEPS):
        heat = _HOT * (_COLD / _HOT) ** (step / max(1, STEPS - 1))
        moves = [points.mutated(walker, generator) for walker in walkers]
        moved = score(moves)
        for i, (move, new) in enumerate(zip(moves, moved.tolist())):
            visited[move] = new
            if new >= scores[i] or generator.random() < math.exp((new - scores[i]) / heat):
                walkers[i], scores[i] = move, new
    return sorted(visited, key=lambda point: -visited[point])
