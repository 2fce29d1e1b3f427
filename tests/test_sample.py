"""Cases that stand for many."""

from __future__ import annotations

from itertools import product

from tests.sample import sample

_GRID = {f"{a}-{b}": {("a", a), ("b", b)} for a, b in product(range(3), range(5))}


def test_every_value_of_every_parameter_is_met() -> None:
    taken = sample(_GRID, 5)
    assert len(taken) == 5
    assert {value for name in taken for value in _GRID[name]} == {
        value for values in _GRID.values() for value in values
    }


def test_the_choice_does_not_depend_on_the_order() -> None:
    assert sample(_GRID, 4) == sample(dict(reversed(_GRID.items())), 4)


def test_few_cases_all_run() -> None:
    assert sample(_GRID, 99) == set(_GRID)
