"""Explorers: which points of a search space to measure next, given what the others took.

    explorer = EXPLORERS["droplet"](points, Random(0))
    explorer.learn(measurer.measure(task, explorer.propose(8)))

No point is proposed twice. An explorer that has none left proposes fewer than are requested.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from random import Random

from tilewright.autotvm.measure.trial import Trial
from tilewright.autotvm.task.points import Points

#: Tries for one new point at random before a large space is taken for exhausted.
_TRIES = 64


class Explorer(ABC):
    """The points proposed so far, and what the measured ones took."""

    name = ""

    def __init__(self, points: Points, generator: Random | None = None) -> None:
        self.points, self.generator = points, generator or Random(0)
        self.seen: set[int] = set()
        self.trials: list[Trial] = []
        #: What a learned model thought of proposed points before they were measured, the higher the faster.
        self.guesses: dict[int, float] = {}

    def propose(self, count: int) -> list[int]:
        """Up to `count` points that were not proposed before."""
        found: list[int] = []
        for point in self._candidates(count) if count > 0 else ():
            if point not in self.seen:
                self.seen.add(point)
                found.append(point)
            if len(found) == count:
                break
        return found

    @abstractmethod
    def _candidates(self, count: int) -> Iterator[int]:
        """Points in the order in which they should be measured; those seen are skipped."""

    def learn(self, trials: Iterable[Trial]) -> None:
        """Learn from measured trials, of points that it proposed or not (as from earlier records)."""
        for trial in trials:
            self.seen.add(trial.point)
            self.trials.append(trial)

    @property
    def best(self) -> Trial | None:
        """The fastest trial."""
        timed = [trial for trial in self.trials if trial.seconds is not None]
        return min(timed, key=_seconds, default=None)

    def fastest(self, count: int) -> list[Trial]:
        """Up to `count` trials, the fastest first."""
        return sorted((trial for trial in self.trials if trial.seconds is not None), key=_seconds)[:count]

    def unseen(self) -> Iterator[int]:
        """Points at random that were not proposed."""
        total = len(self.points)
        while len(self.seen) < total:
            for _ in range(_TRIES):
                point = self.points.random(self.generator)
                if point not in self.seen:
                    break
            else:
                point = next(p for p in range(total) if p not in self.seen)
            yield point


def _seconds(trial: Trial) -> float:
    assert trial.seconds is not None
    return trial.seconds


class RandomExplorer(Explorer):
    """Any point, all equally likely."""

    name = "random"

    def _candidates(self, count: int) -> Iterator[int]:
        yield from self.unseen()


class GridExplorer(Explorer):
    """One point after the other: for a template of topi in the order of what they are expected to cost."""

    name = "grid"

    def __init__(self, points: Points, generator: Random | None = None) -> None:
        super().__init__(points, generator)
        self._next = 0

    def _candidates(self, count: int) -> Iterator[int]:
        while self._next < len(self.points):
            self._next += 1
            yield self._next - 1


class GeneticExplorer(Explorer):
    """Parents among the fastest, likelier the faster they are; knobs from either of two, and now and then a new value.

    `population` are proposed at random first, `elite` is how many of the fastest may be parents, and `mutation` how
    likely a knob changes by itself.
    """

    name = "genetic"

    def __init__(
        self,
        points: Points,
        generator: Random | None = None,
        population: int = 16,
        elite: int = 8,
        mutation: float = 0.1,
    ) -> None:
        super().__init__(points, generator)
        self.population, self.elite, self.mutation = population, elite, mutation

    def _candidates(self, count: int) -> Iterator[int]:
        parents = [trial.point for trial in self.fastest(self.elite)]
        weights = [len(parents) - rank for rank in range(len(parents))]
        if len(self.seen) >= self.population and parents:
            for _ in range(_TRIES * count):
                first, second = self.generator.choices(parents, weights, k=2)
                child = self._child(first, second)
                if child is not None:
                    yield child
        yield from self.unseen()

    def _child(self, first: int, second: int) -> int | None:
        sizes = self.points.knobs.values()
        mixed = [self.generator.choice(pair) for pair in zip(self.points.position(first), self.points.position(second))]
        for knob, size in enumerate(sizes):
            if self.generator.random() < self.mutation:
                mixed[knob] = self.generator.randrange(size)
        return self.points.at(tuple(mixed))


class DropletExplorer(Explorer):
    """Coordinate descent: the neighbours of the fastest point, then those of the next ones (Droplet, CGO 2024).

    It begins with the `first` points that are expected to be best.
    """

    name = "droplet"

    def __init__(self, points: Points, generator: Random | None = None, first: int = 8) -> None:
        super().__init__(points, generator)
        self.first = first

    def _candidates(self, count: int) -> Iterator[int]:
        if len(self.trials) < self.first:
            yield from self.points.best_expected(self.first)
        for trial in self.fastest(len(self.trials)):
            yield from self.points.neighbours(trial.point)
        yield from self.points.best_expected(len(self.points))
        yield from self.unseen()


def diverse(points: Points, ranked: Sequence[int], count: int) -> list[int]:
    """`count` of `ranked`, the best first, but of points that differ in one knob only every second one.

    Neighbours take about the same time, so that measuring one tells of the other.
    """
    chosen: list[int] = []
    left = list(ranked)
    while left and len(chosen) < count:
        near = [sum(_apart(points, point, other) <= 1 for other in chosen) for point in left[: 4 * count]]
        position = min(range(len(near)), key=lambda i: i + 2 * near[i])
        chosen.append(left.pop(position))
    return chosen


def _apart(points: Points, a: int, b: int) -> int:
    """Knobs in which two points differ."""
    return sum(x != y for x, y in zip(points.position(a), points.position(b)))
