"""Features of a point that need no code: the values of its knobs, and the terms of the analytic model.

They are as wide as the knobs of the task's template, and so can be learned from across the tasks of one template.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.autotvm.model.trees import Floats
from tilewright.autotvm.task.points import EnumeratedPoints, Points
from tilewright.topi.schedule.cost import RESOURCES


def knob_features(points: Points, which: Sequence[int]) -> Floats:
    """A row for each point: log2 of each knob's value, then what each resource would take, in shares of the whole."""
    return np.array([_row(points, point) for point in which], np.float32).reshape(len(which), -1)


def _row(points: Points, point: int) -> list[float]:
    if not isinstance(points, EnumeratedPoints):
        return [float(value) for value in points.position(point)]
    cost, config = points.space.ranked[point]
    whole = max(cost.cycles, 1.0)
    shares = [spent / whole for spent in cost.spent.values()]
    knobs = [math.log2(1 + max(0, int(value))) for value in config.values()]
    assert len(shares) == len(RESOURCES) + 1
    return [*knobs, *shares, cost.stalls / whole, cost.hidden / whole, math.log2(whole)]
