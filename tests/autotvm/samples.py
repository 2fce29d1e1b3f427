"""Samples for the tests: what decides their times is seen in their rows and in their trees, and not in the prior."""

from __future__ import annotations

import numpy as np

from tilewright.autotvm.feature.loops import LoopTree
from tilewright.autotvm.feature.samples import Samples


def made(count: int, groups: int = 1, seed: int = 0, twist: bool = False) -> Samples:
    """`count` samples in as many `groups`; twisted ones also depend on a second number."""
    generator = np.random.default_rng(seed)
    rows = generator.random((count, 4)).astype(np.float32)
    owner = np.arange(count, dtype=np.int32) % groups
    noise = generator.random(count) * 0.2
    expected = (1 + owner) * 1e-5 * np.exp(noise)
    seconds = expected * np.exp(rows[:, 0] * 2 + (3 * rows[:, 1] if twist else 0))
    trees = tuple(_tree(row) for row in rows)
    prior = -np.log(expected)
    return Samples(rows, trees, prior.astype(np.float32), seconds.astype(np.float32), owner)


def _tree(row: np.ndarray) -> LoopTree:
    """A root with a leaf, and a chain of two: the first number is split among the leaves."""
    features = np.zeros((4, 3), np.float32)
    features[1, 0], features[3, 0], features[3, 1] = row[0] / 2, row[0] / 2, row[1]
    return LoopTree(np.array([-1, 0, 0, 2], np.int32), features)
