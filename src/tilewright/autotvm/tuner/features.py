"""Features of a task's points read by the processes that build, several at a time, while nothing is measured.

features = features_of(task, measurer)
features.of(range(64))
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.autotvm.feature.loops import LoopFeatures
from tilewright.autotvm.feature.samples import Features, read_loops, read_nothing
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.task.task import Task

#: Points that a process reads at a time.
_AT_A_TIME = 8


def features_of(task: Task, measurer: Measurer | None, guess: bool = False) -> Features:
    """The features of a task, extracted by the builders of `measurer`, if given; see `Features`."""
    if measurer is None:
        return Features(task, guess=guess)

    def read(points: Sequence[int]) -> list[LoopFeatures]:
        if len(points) < 2 * _AT_A_TIME:
            return read_several(task, points)
        pieces = [points[i : i + _AT_A_TIME] for i in range(0, len(points), _AT_A_TIME)]
        found: list[LoopFeatures] = []
        for piece, outcome in zip(pieces, measurer.in_builders(task, read_several, pieces), strict=True):
            found += [read_nothing(task) for _ in piece] if outcome.failure else outcome.value
        return found

    return Features(task, read, guess)


def read_several(task: Task, points: Sequence[int]) -> list[LoopFeatures]:
    """The features of some points."""
    return [read_loops(task, point) for point in points]
