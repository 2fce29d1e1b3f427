"""Cost models: trees as arrays give what xgboost gives, and ranking learns what the analytic model gets wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.autotvm.samples import made
from tilewright.autotvm.feature.samples import Samples
from tilewright.autotvm.model.cost_model import AnalyticModel, Transferred
from tilewright.autotvm.model.models import MODELS, make_model
from tilewright.autotvm.model.trees import Forest
from tilewright.autotvm.model.trees_model import TreesModel
from tilewright.errors import EnvironmentError_, InputError

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


@pytest.mark.parametrize("name", [*MODELS])
def test_untrained_a_model_ranks_as_the_prior_does(name: str) -> None:
    if name == "trees":
        pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    samples = made(4)
    mean, doubt = make_model(name).score(samples)
    assert mean.tolist() == samples.prior.tolist() and not doubt.any()


def test_trees_in_numpy_give_what_xgboost_gives() -> None:
    xgboost = pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    generator = np.random.default_rng(0)
    features = generator.standard_normal((200, 6)).astype(np.float32)
    data = xgboost.DMatrix(features, label=features[:, 0] * features[:, 1])
    booster = xgboost.train({"max_depth": 5, "base_score": 0.0}, data, 30)
    forest = Forest.of_dump(booster.get_dump(dump_format="json"))
    np.testing.assert_allclose(forest.predict(features), booster.predict(data), rtol=1e-4, atol=1e-4)


def ordered(mean: np.ndarray, samples: Samples) -> float:
    """The share of pairs that a score has in the right order."""
    first, second = np.triu_indices(len(samples), 1)
    return float(((mean[first] > mean[second]) == (samples.seconds[first] < samples.seconds[second])).mean())


@pytest.mark.parametrize("name", ["trees", "gru"])
def test_models_learn_what_the_prior_gets_wrong(name: str) -> None:
    if name == "trees":
        pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    samples, other = made(300, groups=3), made(60, seed=9)
    model = make_model(name)
    model.fit(samples)
    mean, doubt = model.score(other)
    assert ordered(mean, other) > 0.85 > 0.7 > ordered(other.prior, other)
    assert model.trained and doubt.shape == mean.shape and (doubt >= 0).all() and doubt.any()


def test_what_was_learned_of_other_tasks_is_a_beginning() -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    general = TreesModel()
    general.fit(made(300, groups=3))
    model, other = Transferred(general, TreesModel(seed=1)), made(60, seed=9)
    assert model.trained and ordered(model.score(other)[0], other) > 0.85
    twisted = made(60, seed=9, twist=True)
    before = ordered(model.score(twisted)[0], twisted)
    model.fit(twisted)
    assert ordered(model.score(twisted)[0], twisted) > before


def test_a_few_measurements_do_not_outweigh_what_a_general_model_knows() -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    few = made(8)
    few = few.with_prior(np.asarray(-np.log(few.seconds) + np.linspace(-0.02, 0.02, 8), np.float32))
    apart = {}
    for kind, model in (("residuals", TreesModel().for_residuals()), ("pairs", TreesModel())):
        model.fit(few)
        apart[kind] = float(np.ptp(model.score(few)[0] - few.prior))
    assert apart["residuals"] < 0.05 < apart["pairs"]


def test_trees_survive_being_kept_and_then_need_no_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xgboost", reason="the extra `tune` is not installed")
    model, samples = TreesModel(), made(40)
    model.fit(samples)
    text = json.dumps(model.to_json())
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    kept = TreesModel.from_json(json.loads(text))
    np.testing.assert_array_equal(kept.score(samples)[0], model.score(samples)[0])


def test_a_name_that_no_model_has() -> None:
    with pytest.raises(InputError, match=r"no cost model 'forest'; there are: trees, gru, analytic"):
        make_model("forest")


def test_trees_cannot_be_learned_without_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    with pytest.raises(EnvironmentError_, match=r"the models gru and analytic"):
        make_model("trees")


def test_a_network_over_trees_wants_trees() -> None:
    samples = made(4)
    with pytest.raises(InputError, match="was given none"):
        make_model("gru").fit(Samples(samples.rows, (), samples.prior, samples.seconds, samples.groups))


def test_the_analytic_model_learns_nothing() -> None:
    model = AnalyticModel()
    model.fit(made(10))
    assert not model.trained
