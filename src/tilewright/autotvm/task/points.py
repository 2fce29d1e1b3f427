"""Search spaces as explorers see them: numbered points, each a value for every knob; some may be invalid.

    points = EnumeratedPoints(space)          # of a schedule template of topi: point 0 is the cost model's choice
    points.config(7), points.position(7)      # the configuration, and the number of each knob's value
    points.at((0, 3, 1))                      # the point at a position; None where the values are not valid together

Explorers move by positions (one knob a step, a mix of two parents); measurements and records are about configurations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from random import Random
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.topi.schedule.space import ConfigSpace

Position = tuple[int, ...]


class Points(ABC):
    """A search space of numbered points. `knobs` has the number of values of each knob, by name."""

    knobs: Mapping[str, int]

    @abstractmethod
    def __len__(self) -> int:
        """The number of points."""

    @abstractmethod
    def config(self, point: int) -> Any:
        """The configuration of a point."""

    @abstractmethod
    def position(self, point: int) -> Position:
        """The index of each knob's value at a point."""

    @abstractmethod
    def at(self, position: Position) -> int | None:
        """The point with these indices of the knobs' values; None where it is invalid."""

    @abstractmethod
    def find(self, config: Any) -> int | None:
        """The point of a configuration in the JSON form of records; None if the space does not contain it."""

    @abstractmethod
    def plain(self, point: int) -> Mapping[str, Any]:
        """The configuration of a point as plain data."""

    def expected(self, point: int) -> float:
        """The time that the analytic model predicts, in seconds; 0 without a model."""
        return 0.0

    def best_expected(self, count: int) -> list[int]:
        """Up to `count` points with the least predicted time; none without a model."""
        return []

    def random(self, generator: Random) -> int:
        """A point drawn uniformly."""
        return generator.randrange(len(self))

    def neighbours(self, point: int) -> Iterator[int]:
        """The neighbours of a point: one knob changed to the next valid value on either side."""
        position = self.position(point)
        for knob, size in enumerate(self.knobs.values()):
            for step in (1, -1):
                for value in range(position[knob] + step, size if step > 0 else -1, step):
                    found = self.at((*position[:knob], value, *position[knob + 1 :]))
                    if found is not None:
                        yield found
                        break

    def mutated(self, point: int, generator: Random) -> int:
        """A point that differs in one knob; any point where there is none."""
        position, sizes = self.position(point), list(self.knobs.values())
        movable = [knob for knob, size in enumerate(sizes) if size > 1]
        for _ in range(4 * len(movable)):
            knob = generator.choice(movable)
            value = generator.randrange(sizes[knob])
            found = self.at((*position[:knob], value, *position[knob + 1 :]))
            if found is not None and found != point:
                return found
        return self.random(generator)


class UnrestrictedPoints(Points):
    """The product of all knobs' values: a point is a mixed-radix number with an index of a value as each digit."""

    def position(self, point: int) -> Position:
        indices = []
        for size in self.knobs.values():
            point, index = divmod(point, size)
            indices.append(index)
        return tuple(indices)

    def at(self, position: Position) -> int | None:
        point = 0
        for index, size in zip(reversed(position), reversed(list(self.knobs.values())), strict=True):
            if not 0 <= index < size:
                return None
            point = point * size + index
        return point


class EnumeratedPoints(Points):
    """The space of a schedule template, in the order of what its configurations are expected to cost.

    `seconds(cycles)` is how long so many cycles take on the target.
    """

    def __init__(self, space: ConfigSpace, seconds: Any) -> None:
        self.space, self._seconds = space, seconds
        self._values = {
            name: {value: i for i, value in enumerate(sorted(known))} for name, known in space.knobs.items()
        }
        self.knobs = {name: len(values) for name, values in self._values.items()}

    def __len__(self) -> int:
        return len(self.space.ranked)

    def config(self, point: int) -> Any:
        return self.space.ranked[point][1]

    def plain(self, point: int) -> Mapping[str, Any]:
        return self.space.ranked[point][1].to_json()

    def position(self, point: int) -> Position:
        config = self.config(point)
        return tuple(values[config[name]] for name, values in self._values.items())

    def at(self, position: Position) -> int | None:
        return self._positions.get(tuple(position))

    def find(self, config: Any) -> int | None:
        try:
            found = self.space.config(config)
        except (ScheduleError, TypeError):
            return None
        return self._positions.get(tuple(values[found[name]] for name, values in self._values.items()))

    def expected(self, point: int) -> float:
        return float(self._seconds(self.space.ranked[point][0].cycles))

    def best_expected(self, count: int) -> list[int]:
        return list(range(min(count, len(self))))

    @cached_property
    def _positions(self) -> dict[Position, int]:
        return {self.position(point): point for point in range(len(self))}
