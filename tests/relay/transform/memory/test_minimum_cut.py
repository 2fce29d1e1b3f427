"""Minimum cuts beside all cuts of small graphs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tilewright.relay.transform.memory.minimum_cut import UNCUT, minimum_cut


def _value(capacities: dict[tuple[int, int], int], side: set[int]) -> int:
    return sum(capacity for (a, b), capacity in capacities.items() if a in side and b not in side)


@pytest.mark.parametrize("seed", range(20))
def test_no_cut_is_smaller(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 8))
    pairs = [(a, b) for a in range(count) for b in range(count) if a != b and rng.random() < 0.6]
    capacities = {pair: int(rng.integers(1, 30)) for pair in pairs}
    side = minimum_cut(capacities, 0, count - 1)
    assert 0 in side and count - 1 not in side
    others = range(1, count - 1)
    sides = [{0, *some} for k in range(count) for some in itertools.combinations(others, k)]
    assert _value(capacities, side) == min(_value(capacities, one) for one in sides)


def test_edges_that_nothing_cuts() -> None:
    edges = {("s", "a"): UNCUT, ("a", "b"): 5, ("b", "t"): UNCUT, ("s", "b"): 1}
    assert minimum_cut(edges, "s", "t") == {"s", "a"}
