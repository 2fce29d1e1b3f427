"""Cost models: trees as arrays give what xgboost gives, and ranking learns what the analytic model gets wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tilewright.autotvm.model.rank_model import RankModel
from tilewright.autotvm.model.trees import Forest

TREE = {
    "nodeid": 0, "split": "f1", "split_condition": 0.5, "yes": 1, "no": 2, "children": [
        {"nodeid": 1, "leaf": -1.0},
        {"nodeid": 2, "split": "f0", "split_condition": 2.0, "yes": 3, "no": 4, "children": [
            {"nodeid": 3, "leaf": 1.0}, {"nodeid": 4, "leaf": 3.0}]},
    ],
}  # fmt: skip
ROWS = np.array([[0, 0], [0, 1], [5, 1], [2, 0.5]], np.float32)


def test_a_row_takes_the_branch_that_its_features_say() -> None:
    forest = Forest.of_dump([json.dumps(TREE), json.dumps({"nodeid": 0, "leaf": 10.0})])
    assert forest.predict(ROWS).tolist() == [9.0, 11.0, 13.0, 13.0]
    assert forest.depth == 2


def test_a_forest_survives_being_kept() -> None:
    forest = Forest.of_dump([json.dumps(TREE)])
    kept = Forest.from_json(json.loads(json.dumps(forest.to_json())))
    assert kept.predict(ROWS).tolist() == forest.predict(ROWS).tolist()


def test_no_trees_predict_nothing() -> None:
    assert Forest.of_dump([]).predict(ROWS).tolist() == [0, 0, 0, 0]


def test_untrained_it_ranks_as_the_analytic_model_does() -> None:
    mean, doubt = RankModel().score(ROWS, np.array([3e-6, 1e-6, 2e-6, 0], np.float32))
    assert mean[1] > mean[2] > mean[0] and not doubt.any()


def test_trees_in_numpy_give_what_xgboost_gives() -> None:
    xgboost = pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    generator = np.random.default_rng(0)
    features = generator.standard_normal((200, 6)).astype(np.float32)
    data = xgboost.DMatrix(features, label=features[:, 0] * features[:, 1])
    booster = xgboost.train({"max_depth": 5, "base_score": 0.0}, data, 30)
    forest = Forest.of_dump(booster.get_dump(dump_format="json"))
    np.testing.assert_allclose(forest.predict(features), booster.predict(data), rtol=1e-4, atol=1e-4)


def test_it_learns_what_the_analytic_model_gets_wrong() -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    generator = np.random.default_rng(1)
    features = generator.random((300, 4)).astype(np.float32)
    groups = np.repeat([0, 1, 2], 100)
    expected = ((1 + groups) * 1e-5 * np.exp(generator.random(300) * 0.2)).astype(np.float32)
    seconds = expected * np.exp(features[:, 0] * 2).astype(np.float32)
    model = RankModel()
    model.fit(features[:200], seconds[:200], expected[:200], groups[:200].tolist())
    mean, doubt = model.score(features[200:], expected[200:])
    order = mean[:, None] > mean[None, :]
    faster = seconds[200:, None] < seconds[None, 200:]
    pairs = ~np.eye(100, dtype=bool)
    assert (order == faster)[pairs].mean() > 0.85
    assert doubt.shape == mean.shape and (doubt >= 0).all()
