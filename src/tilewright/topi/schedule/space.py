"""Search spaces of schedule templates as data: named knobs, what a choice is expected to cost, and the default.

A template says which values its knobs can take, which combinations are valid and what each is expected to cost. Ranking
the whole space yields the default without measuring; a tuner explores the same space.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.topi.schedule.config import Config, Value
from tilewright.topi.schedule.cost import Cost


class ConfigSpace:
    """The configurations of one template for one workload.

    space = ConfigSpace()
    space.define_split("rows", 56, limit=8)               # divisors of 56 up to 8
    space.define_knob("vectors", (1, 2, 4))
    space.require(lambda c: c["rows"] * c["vectors"] <= 28)
    space.rank_by(lambda c: Cost(arithmetic=1.0 + 1.0 / (c["rows"] * c["vectors"])))
    space.default                                         # rows=7 vectors=4

    A space without knobs has one configuration, the empty one.
    """

    def __init__(self) -> None:
        self.knobs: dict[str, tuple[Value, ...]] = {}
        self._groups: list[tuple[tuple[str, ...], tuple[tuple[Value, ...], ...]]] = []
        self._absent: dict[str, Value] = {}
        self._conditions: list[tuple[int, Callable[[Mapping[str, Value]], bool]]] = []
        self._cost: Callable[[Config], Cost] = lambda config: Cost()
        self._least: Callable[[Config], float] | None = None

    def define_knob(self, name: str, candidates: Sequence[Value], absent: Value | None = None) -> None:
        """A knob that takes one of `candidates`. Raises ScheduleError for a name that is taken or no candidates.

        `absent` is what configurations have that were recorded before there was this knob.
        """
        self.define_joint((name,), [(value,) for value in candidates])
        if absent is not None:
            self._absent[name] = absent

    def define_split(self, name: str, extent: int, limit: int | None = None, exact: bool = True) -> None:
        """A knob for the inner extent of a split of `extent` iterations, to `limit`: divisors, or any if not exact."""
        most = extent if limit is None else min(extent, limit)
        self.define_knob(name, divisors(extent, most) if exact else range(1, most + 1))

    def define_joint(self, names: Sequence[str], candidates: Sequence[Sequence[Value]]) -> None:
        """Several knobs whose values belong together: each of `candidates` has one for each name."""
        names, rows = tuple(names), tuple(dict.fromkeys(tuple(row) for row in candidates))
        if not rows or not set(names).isdisjoint(self.knobs):
            raise ScheduleError(f"knobs {', '.join(names)}: a knob needs a name of its own and at least one candidate")
        self._groups.append((names, rows))
        for position, name in enumerate(names):
            self.knobs[name] = tuple(dict.fromkeys(row[position] for row in rows))

    def require(self, condition: Callable[[Mapping[str, Value]], bool]) -> None:
        """Only configurations for which `condition` holds are in the space. It sees the knobs defined before it."""
        self._conditions.append((len(self._groups), condition))

    def rank_by(self, cost: Callable[[Config], Cost], least: Callable[[Config], float] | None = None) -> None:
        """`cost` is what a configuration is expected to take; of equal ones the first by the order of knobs is best.

        `least` are cycles that this never falls below, and which are found in much less time.
        """
        self._cost, self._least = cost, least

    def __iter__(self) -> Iterator[Config]:
        found: list[dict[str, Value]] = [{}]
        for position, (names, rows) in enumerate(self._groups, 1):
            conditions = [condition for known, condition in self._conditions if max(known, 1) == position]
            pieces = [dict(zip(names, row, strict=True)) for row in rows]
            found = [earlier | piece for earlier in found for piece in pieces]
            for condition in conditions:
                found = [values for values in found if condition(values)]
        for values in found:
            yield Config(tuple(values.items()))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def cost(self, config: Config) -> Cost:
        """The expected cost of `config`; nothing where the space was not ranked."""
        return self._cost(config)

    @functools.cached_property
    def ranked(self) -> list[tuple[Cost, Config]]:
        """All configurations with their costs, the cheapest first."""
        found = [(self.cost(config), config) for config in self._valid()]
        return sorted(found, key=lambda entry: _rank(entry[0]))

    @functools.cached_property
    def cheapest(self) -> tuple[Cost, Config]:
        """The first of `ranked`, found without the costs of all: most configurations are bound to cost more."""
        if self._least is None or "ranked" in self.__dict__:
            return self.ranked[0]
        least = self._least
        bounded = [(least(config), position, config) for position, config in enumerate(self._valid())]
        found: tuple[float, int, Cost, Config] | None = None
        for bound, position, config in sorted(bounded, key=lambda entry: entry[:2]):
            if found is not None and bound > found[0] + _ROUNDING:
                break
            cost = self.cost(config)
            if found is None or (_rank(cost), position) < found[:2]:
                found = _rank(cost), position, cost, config
        assert found is not None
        return found[2:]

    def _valid(self) -> list[Config]:
        found = list(self)
        if not found:
            raise ScheduleError(f"no combination of the knobs {', '.join(self.knobs)} is valid")
        return found

    @property
    def default(self) -> Config:
        """The configuration expected to cost least."""
        return self.cheapest[1]

    def config(self, values: Mapping[str, Any]) -> Config:
        """The configuration with these values. Raises ScheduleError if it is not in the space, saying why."""
        values = {**self._absent, **values}
        if set(values) != set(self.knobs):
            raise ScheduleError(f"a configuration has the knobs {', '.join(self.knobs)}, not {', '.join(values)}")
        for name, candidates in self.knobs.items():
            if values[name] not in candidates:
                known = ", ".join(map(str, candidates))
                raise ScheduleError(f"knob {name}={values[name]} is not among its candidates: {known}")
        found = Config(tuple((name, values[name]) for group, _ in self._groups for name in group))
        joint = all(tuple(found[name] for name in names) in rows for names, rows in self._groups)
        if not joint or not all(condition(found) for _, condition in self._conditions):
            raise ScheduleError(f"the values {found} are not valid together")
        return found


#: Costs are compared in tenths of cycles, so that equal ones summed up in other orders stay equal.
_ROUNDING = 0.1


def _rank(cost: Cost) -> float:
    return round(cost.cycles, 1)


def divisors(value: int, limit: int) -> list[int]:
    """Divisors of `value` up to `limit`, ascending."""
    small = [d for d in range(1, min(math.isqrt(max(value, 0)), limit) + 1) if value % d == 0]
    large = [value // d for d in reversed(small) if d * d != value]
    return small + [d for d in large if d <= limit]
