"""TreeGRU: packing of trees, and derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest

from tests.autotvm.samples import made
from tilewright.autotvm.model.gru_model import pair_gradient
from tilewright.autotvm.model.tree_gru import backward, forward, initial_weights, pack


def test_the_levels_of_a_batch_have_children_before_parents() -> None:
    batch = pack(made(3).trees)
    assert [level.nodes.tolist() for level in batch.levels] == [[1, 3, 5, 7, 9, 11], [2, 6, 10], [0, 4, 8]]
    assert batch.roots.tolist() == [0, 4, 8]
    assert batch.levels[0].parents.tolist() == [0, 2, 4, 6, 8, 10] and not len(batch.levels[2].inner)


def test_a_tree_scores_the_same_in_any_company() -> None:
    trees = made(5).trees
    weights = initial_weights(3, 6, np.random.default_rng(0))
    together, _ = forward(weights, pack(trees))
    for number, tree in enumerate(trees):
        assert forward(weights, pack([tree]))[0][0] == pytest.approx(together[number], rel=1e-5)


def test_derivatives_are_those_of_differences() -> None:
    generator = np.random.default_rng(1)
    weights = {name: value.astype(np.float64) for name, value in initial_weights(3, 4, generator).items()}
    batch, dscore = pack(made(4).trees), generator.standard_normal(4)
    _, memory = forward(weights, batch)
    gradients = backward(weights, batch, memory, dscore)
    for name, value in weights.items():
        position = tuple(int(generator.integers(size)) for size in value.shape)
        found = []
        for step in (1e-5, -1e-5):
            moved = {**weights, name: value.copy()}
            moved[name][position] += step
            found.append(float(forward(moved, batch)[0] @ dscore))
        assert gradients[name][position] == pytest.approx((found[0] - found[1]) / 2e-5, rel=1e-4, abs=1e-7), name


def test_the_loss_pushes_the_faster_one_up() -> None:
    samples = made(20)
    gradient = pair_gradient(samples, np.zeros(20, np.float32), np.random.default_rng(0))
    fastest, slowest = np.argmin(samples.seconds), np.argmax(samples.seconds)
    assert gradient[fastest] < 0 < gradient[slowest]
