"""Problems of options and pairs of them, against trying everything."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tilewright.relay.transform.layout.pbqp import solve


def _cost(costs: dict, pairs: dict, chosen: dict) -> float:
    own = sum(costs[node][chosen[node]] for node in costs)
    return float(own + sum(matrix[chosen[a], chosen[b]] for (a, b), matrix in pairs.items()))


def _problem(generator: np.random.Generator, edges: list[tuple[int, int]], nodes: int) -> tuple[dict, dict]:
    sizes = [int(generator.integers(1, 4)) for _ in range(nodes)]
    costs = {node: generator.integers(0, 20, sizes[node]) for node in range(nodes)}
    return costs, {(a, b): generator.integers(0, 20, (sizes[a], sizes[b])) for a, b in edges}


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1), (1, 2), (2, 3), (3, 4)],  # a chain
        [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (0, 3)],  # a residual block
        [(4, 0), (4, 1), (4, 2), (4, 3)],  # a value that four read
        [],
    ],
)
def test_serial_and_parallel_graphs_are_solved_exactly(edges):
    generator = np.random.default_rng(len(edges))
    for _ in range(30):
        costs, pairs = _problem(generator, edges, 5)
        every = itertools.product(*(range(len(costs[node])) for node in costs))
        least = min(_cost(costs, pairs, dict(enumerate(one))) for one in every)
        assert _cost(costs, pairs, solve(costs, pairs)) == least


def test_where_all_are_neighbours_the_answer_is_near():
    generator = np.random.default_rng(3)
    edges = list(itertools.combinations(range(6), 2))
    ratios = []
    for _ in range(20):
        costs, pairs = _problem(generator, edges, 6)
        every = itertools.product(*(range(len(costs[node])) for node in costs))
        least = min(_cost(costs, pairs, dict(enumerate(one))) for one in every)
        ratios.append(_cost(costs, pairs, solve(costs, pairs)) / least)
    assert min(ratios) >= 1.0 and float(np.mean(ratios)) < 1.1


def test_what_cannot_stand_together_does_not():
    never = float("inf")
    assert solve({"a": [0, 5], "b": [5, 0]}, {("a", "b"): [[0, never], [never, 0]]}) in (
        {"a": 0, "b": 0},
        {"a": 1, "b": 1},
    )
