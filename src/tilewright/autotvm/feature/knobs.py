"""Features of a point that need no code: the values of its knobs, and the terms of the analytic model.

Values of knobs are as many as the template has, and can be learned from within one template; terms are as many for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.task.points import EnumeratedPoints, Points
from tilewright.topi.schedule.cost import RESOURCES

Floats = NDArray[np.float32]

#: The name of each analytic feature: the share of the whole that each resource takes, and the logarithm of the whole.
TERM_FEATURES = (*(f"{name}_term" for name in (*RESOURCES, "fixed")), "stalls_term", "hidden_term", "cycles_term")


def knob_features(points: Points, which: Sequence[int]) -> Floats:
    """A row for each point: log2 of each knob's value (its number, of knobs that are no numbers), then the terms."""
    knobs = np.array([_knobs(points, point) for point in which], np.float32).reshape(len(which), -1)
    return np.concatenate([knobs, term_features(points, which)], axis=1)


def _knobs(points: Points, point: int) -> list[float]:
    if not isinstance(points, EnumeratedPoints):
        return [float(value) for value in points.position(point)]
    return [math.log2(1 + max(0, int(value))) for value in points.config(point).values()]


def term_features(points: Points, which: Sequence[int]) -> Floats:
    """A row of `TERM_FEATURES` for each point; zeros where no analytic model knows the space."""
    rows = np.zeros((len(which), len(TERM_FEATURES)), np.float32)
    if isinstance(points, EnumeratedPoints):
        for row, point in zip(rows, which):
            cost = points.space.ranked[point][0]
            whole = max(cost.cycles, 1.0)
            spent = (value / whole for value in cost.spent.values())
            row[:] = (*spent, cost.stalls / whole, cost.hidden / whole, math.log2(whole))
    return rows
