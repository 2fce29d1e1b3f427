"""A cost model that ranks: boosted trees on what the analytic model gets wrong, several of them for their doubt.

    model = RankModel()
    model.fit(features, seconds, expected, groups)       # groups: rows that can be compared, by task
    mean, doubt = model.score(features, expected)        # the higher the faster

The trees begin where the analytic model ends (its logarithm is their first guess) and learn by pairs of rows of one
group, as in "Learning to Optimize Tensor Programs" (NeurIPS 2018), section 3. Training needs xgboost, predicting NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.model.trees import Floats, Forest
from tilewright.errors import EnvironmentError_

#: Trees of one forest, and their depth; forests, each of another sample of the rows.
_ROUNDS, _DEPTH, _FORESTS = 40, 4, 3

_SETTINGS = {
    "objective": "rank:pairwise", "max_depth": _DEPTH, "eta": 0.2, "min_child_weight": 0.5, "lambda": 1.0,
    "subsample": 0.8, "colsample_bytree": 0.8, "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8,
    "tree_method": "hist", "nthread": 1, "verbosity": 0,
}  # fmt: skip


def require_xgboost() -> Any:
    """The library. Raises `EnvironmentError_` that says how to install it."""
    try:
        import xgboost
    except ImportError:
        raise EnvironmentError_(
            'learning from measurements by boosted trees needs xgboost: `pip install "tilewright[tune]"`; without it '
            "there are the explorers droplet, genetic, random and grid"
        ) from None
    return xgboost


def has_xgboost() -> bool:
    """True where boosted trees can be trained."""
    try:
        require_xgboost()
    except EnvironmentError_:
        return False
    return True


class RankModel:
    """Forests, and how they are trained; without training it ranks as the analytic model does."""

    def __init__(self, forests: Sequence[Forest] = (), seed: int = 0) -> None:
        self.forests, self.seed = list(forests), seed

    def fit(self, features: Floats, seconds: Floats, expected: Floats, groups: Sequence[int]) -> None:
        """Learn from measured rows; `groups` has the number of the task of each."""
        xgboost = require_xgboost()
        order = np.argsort(np.asarray(groups), kind="stable")
        owner = np.asarray(groups)[order]
        best: dict[int, float] = {}
        for group, taken in zip(owner, seconds[order]):
            best[group] = min(best.get(group, np.inf), float(taken))
        relevance = np.array([best[group] / taken for group, taken in zip(owner, seconds[order])], np.float32)
        data = xgboost.DMatrix(features[order], label=relevance, qid=owner)
        data.set_base_margin(_guess(expected[order]))
        self.forests = []
        for number in range(_FORESTS):
            booster = xgboost.train({**_SETTINGS, "seed": self.seed + number}, data, _ROUNDS)
            self.forests.append(Forest.of_dump(booster.get_dump(dump_format="json")))

    def score(self, features: Floats, expected: Floats) -> tuple[Floats, Floats]:
        """For each row how good it is, in steps of the logarithm of speed or so, and how far the forests differ."""
        guess = _guess(expected)
        if not self.forests:
            return guess, np.zeros_like(guess)
        votes = np.stack([guess + forest.predict(features) for forest in self.forests])
        return votes.mean(axis=0), votes.std(axis=0)


def _guess(expected: Floats) -> Floats:
    """What the analytic model says, as a score: the logarithm of the speed; 0 where it says nothing."""
    return np.where(expected > 0, -np.log(np.maximum(expected, 1e-12)), 0.0).astype(np.float32)
