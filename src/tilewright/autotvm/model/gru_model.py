"""A cost model that reads the tree of loops by a recurrent network, and learns to rank by pairs, in NumPy alone.

    model = GruModel()
    model.fit(samples)                              # of which each has a tree

Its score is added to the prior, as that of boosted trees is. Of two configurations of one task, the loss is the
logarithm of how unlikely the score's difference makes the faster one; Adam takes the steps. Two networks from different
beginnings differ where there is doubt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.autotvm.feature.samples import Samples
from tilewright.autotvm.model.cost_model import CostModel, Floats
from tilewright.autotvm.model.tree_gru import Batch, Weights, backward, forward, initial_weights, pack
from tilewright.errors import InputError

#: Networks, the size of their states, and the rate and decay of learning.
_NETWORKS, _HIDDEN, _RATE, _DECAY = 2, 24, 4e-3, 1e-4

#: Steps of Adam: so many passes over the rows, within these limits; rows of one step, and pairs with each row.
_PASSES, _LEAST_STEPS, _MOST_STEPS, _ROWS, _PAIRS = 20, 40, 300, 192, 8

#: Times nearer than this do not tell which is faster.
_APART = 0.01

#: Differences of scores are taken so many times: a tenth in speed is to be sure.
_SHARP = 10.0


class GruModel(CostModel):
    """Networks over trees of loops; untrained it ranks as the prior does."""

    name = "gru"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.networks: list[Weights] = []
        self._middle = self._width = np.zeros(0, np.float32)

    @property
    def trained(self) -> bool:
        return bool(self.networks)

    def fit(self, samples: Samples) -> None:
        """Raises `InputError` for samples without trees."""
        if not samples.trees:
            raise InputError("the model gru reads the loops of configurations, and was given none")
        every = np.concatenate([tree.features for tree in samples.trees])
        self._middle, self._width = every.mean(axis=0), every.std(axis=0) + 1e-3
        self.networks = [self._learned(samples, self.seed + number) for number in range(_NETWORKS)]

    def score(self, samples: Samples) -> tuple[Floats, Floats]:
        if not self.networks:
            return samples.prior, np.zeros_like(samples.prior)
        batch = self._batch(samples)
        votes = np.stack([samples.prior + forward(weights, batch)[0] for weights in self.networks])
        return votes.mean(axis=0), votes.std(axis=0)

    def _batch(self, samples: Samples) -> Batch:
        batch = pack(samples.trees)
        features = np.clip((batch.features - self._middle) / self._width, -5, 5).astype(np.float32)
        return Batch(features, batch.roots, batch.levels)

    def _learned(self, samples: Samples, seed: int) -> Weights:
        generator = np.random.default_rng(seed)
        weights = initial_weights(len(self._middle), _HIDDEN, generator)
        adam = _Adam(weights)
        steps = int(np.clip(_PASSES * len(samples) / _ROWS, _LEAST_STEPS, _MOST_STEPS))
        for step in range(steps):
            part = samples.take(_some_groups(samples.groups, generator))
            batch = self._batch(part)
            score, memory = forward(weights, batch)
            dscore = pair_gradient(part, part.prior + score, generator)
            adam.step(backward(weights, batch, memory, dscore), _RATE * (1 - step / steps))
        return weights


def _some_groups(groups: NDArray[np.int32], generator: np.random.Generator) -> NDArray[np.intp]:
    """Rows of groups at random, up to `_ROWS` of them."""
    known = generator.permutation(np.unique(groups))
    rows: list[NDArray[np.intp]] = []
    for group in known:
        own = np.flatnonzero(groups == group)
        rows.append(generator.permutation(own)[: _ROWS // 4] if len(known) > 1 else generator.permutation(own))
        if sum(map(len, rows)) >= _ROWS:
            break
    return np.concatenate(rows)[:_ROWS]


def pair_gradient(samples: Samples, score: NDArray[np.floating[Any]], generator: np.random.Generator) -> Floats:
    """The derivative of the loss by each row's score, over pairs of rows of one group at random."""
    gradient = np.zeros(len(samples), np.float32)
    speed = -np.log(samples.seconds)
    pairs = 0
    for group in np.unique(samples.groups):
        rows = np.flatnonzero(samples.groups == group)
        first = np.repeat(rows, _PAIRS)
        second = generator.choice(rows, len(first))
        ahead = speed[first] - speed[second]
        apart = np.abs(ahead) > _APART
        first, second, ahead = first[apart], second[apart], ahead[apart]
        sign = np.sign(ahead)
        wrong = sign / (1.0 + np.exp(np.clip(_SHARP * sign * (score[first] - score[second]), -30, 30)))
        np.add.at(gradient, first, -wrong)
        np.add.at(gradient, second, wrong)
        pairs += len(first)
    return np.asarray(gradient * np.float32(_SHARP / max(1, pairs)), np.float32)


class _Adam:
    """Steps against the gradient, each weight at its own rate (Kingma and Ba, ICLR 2015)."""

    def __init__(self, weights: Weights, first: float = 0.9, second: float = 0.99) -> None:
        self.weights, self.rates, self.count = weights, (first, second), 0
        self.mean = {name: np.zeros_like(value) for name, value in weights.items()}
        self.square = {name: np.zeros_like(value) for name, value in weights.items()}

    def step(self, gradients: Weights, rate: float) -> None:
        self.count += 1
        first, second = self.rates
        for name, gradient in gradients.items():
            gradient = gradient + _DECAY * self.weights[name]
            self.mean[name] += (1 - first) * (gradient - self.mean[name])
            self.square[name] += (1 - second) * (gradient**2 - self.square[name])
            mean = self.mean[name] / (1 - first**self.count)
            square = self.square[name] / (1 - second**self.count)
            self.weights[name] -= (rate * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)
