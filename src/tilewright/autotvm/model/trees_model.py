"""A cost model of boosted trees on what the analytic model gets wrong, several forests of them for their doubt.

    model = TreesModel()
    model.fit(samples)
    mean, doubt = model.score(samples)

The trees begin where the prior ends (it is their first guess). Forests of one half learn by pairs of rows of one group,
as in "Learning to Optimize Tensor Programs" (NeurIPS 2018), section 3; those of the other half learn by how many times
as fast, which tells of distances too. Training needs xgboost, predicting NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.autotvm.feature.samples import Samples
from tilewright.autotvm.model.cost_model import CostModel, Floats, relevance
from tilewright.autotvm.model.trees import Forest
from tilewright.errors import EnvironmentError_

#: Rows from which on forests are as large as they get, and the trees of one then and of one that learns from few rows.
_MANY, _ROUNDS, _FEW_ROUNDS = 500, 150, 40

#: Forests, each of another sample of the rows and columns; every other one learns by pairs.
_FORESTS = 4

_SETTINGS = {
    "max_depth": 4, "min_child_weight": 0.5, "lambda": 1.0, "subsample": 0.8, "colsample_bytree": 0.6,
    "tree_method": "hist", "nthread": 1, "verbosity": 0,
}  # fmt: skip

_BY_PAIRS = {
    "objective": "rank:pairwise", "lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 8,
}  # fmt: skip


def require_xgboost() -> Any:
    """The library. Raises `EnvironmentError_` that says how to install it."""
    try:
        import xgboost
    except ImportError:
        raise EnvironmentError_(
            'learning from measurements by boosted trees needs xgboost: `pip install "tilewright[tune]"`; without it '
            "there are the explorers droplet, genetic, random and grid, and the models gru and analytic"
        ) from None
    return xgboost


def has_xgboost() -> bool:
    """True where boosted trees can be trained."""
    try:
        require_xgboost()
    except EnvironmentError_:
        return False
    return True


class TreesModel(CostModel):
    """Forests, and how they are trained; without training it ranks as the prior does. Not `by_pairs`, all learn by how
    many times as fast."""

    name = "trees"

    def __init__(self, seed: int = 0, forests: Sequence[Forest] = (), by_pairs: bool = True) -> None:
        self.seed, self.forests, self.by_pairs = seed, list(forests), by_pairs

    @property
    def trained(self) -> bool:
        return bool(self.forests)

    def for_residuals(self) -> TreesModel:
        return TreesModel(self.seed, by_pairs=False)

    def fit(self, samples: Samples) -> None:
        xgboost = require_xgboost()
        samples = samples.take(np.argsort(samples.groups, kind="stable"))
        many = len(samples) >= _MANY
        settings = {**_SETTINGS, "eta": 0.08 if many else 0.2}
        speed = relevance(samples)
        by_pairs = xgboost.DMatrix(samples.rows, label=speed, qid=samples.groups)
        by_pairs.set_base_margin(samples.prior)
        beyond = xgboost.DMatrix(samples.rows, label=_centred(np.log(speed) - samples.prior, samples.groups))
        self.forests = []
        for number in range(_FORESTS):
            own = {**settings, "seed": self.seed + number}
            pairs = self.by_pairs and number % 2 == 0
            own |= _BY_PAIRS if pairs else {"objective": "reg:squarederror", "base_score": 0.0}
            rounds = _ROUNDS if many else _FEW_ROUNDS
            booster = xgboost.train(own, by_pairs if pairs else beyond, rounds)
            self.forests.append(Forest.of_dump(booster.get_dump(dump_format="json")))

    def score(self, samples: Samples) -> tuple[Floats, Floats]:
        if not self.forests:
            return samples.prior, np.zeros_like(samples.prior)
        votes = np.stack([samples.prior + forest.predict(samples.rows) for forest in self.forests])
        return votes.mean(axis=0), votes.std(axis=0)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"seed": self.seed, "forests": [forest.to_json() for forest in self.forests]}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TreesModel:
        """The inverse of `to_json`; the result predicts without xgboost."""
        return cls(int(fields["seed"]), [Forest.from_json(forest) for forest in fields["forests"]])


def _centred(values: Floats, groups: Any) -> Floats:
    """Values less the median of their group."""
    middle = {group: np.median(values[groups == group]) for group in np.unique(groups)}
    return np.asarray(values - np.array([middle[group] for group in groups], np.float32), np.float32)
