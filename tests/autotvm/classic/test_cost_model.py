"""The cost model by its classic interface: it learns an order, from other tasks too, and the tuner begins with that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.autotvm.template.test_template import product
from tilewright.autotvm.classic.measure import MeasureInput, MeasureResult
from tilewright.autotvm.model.trees_model import has_xgboost
from tilewright.autotvm.template.dispatch import get_config
from tilewright.autotvm.template.template import create, template
from tilewright.errors import InputError

pytestmark = pytest.mark.skipif(not has_xgboost(), reason="xgboost is not installed (the extra `tune`)")


@template("tests/two_splits")
def two_splits(n: int) -> Any:
    s, (a, b, c) = product(n)
    y, x = s[c].op.axis
    cfg = get_config()
    cfg.define_split("y", y, num_outputs=2)
    cfg.define_split("x", x, num_outputs=2)
    yo, yi = cfg["y"].apply(s, c, y)
    xo, xi = cfg["x"].apply(s, c, x)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    return s, [a, b, c]


def model_of(task: Any, **options: Any) -> Any:
    from tilewright.autotvm.classic.cost_model import XGBoostCostModel

    return XGBoostCostModel(task, **options)


def speeds_of(task: Any) -> list[float]:
    """Operations a second that grow with the width of a vector and of no other knob."""
    return [1e9 * task.config_space.get(point)["x"].size[-1] for point in range(len(task.config_space))]


def records_of(task: Any) -> list[tuple[MeasureInput, MeasureResult]]:
    configs = map(task.config_space.get, range(len(task.config_space)))
    return [
        (MeasureInput(task.target, task, config), MeasureResult((task.flop / speed,), 0, 0.1, 0.0))
        for config, speed in zip(configs, speeds_of(task))
    ]


@pytest.mark.parametrize("feature_type", ["itervar", "knob"])
@pytest.mark.parametrize("loss_type", ["rank", "reg"])
def test_it_learns_which_are_faster(feature_type: str, loss_type: str) -> None:
    task = create("tests/two_splits", args=(16,))
    model = model_of(task, feature_type=feature_type, loss_type=loss_type)
    xs, speeds = range(len(task.config_space)), speeds_of(task)
    model.fit(xs, [0.0, *speeds[1:]], plan_size=8)
    scores = model.predict(xs)
    order = np.array(speeds[1:])
    assert scores[1:][order == order.max()].mean() > scores[1:][order == order.min()].mean()
    assert scores[0] < scores[1:].max()


def test_what_other_tasks_taught_is_what_a_model_begins_with() -> None:
    known, task = create("tests/two_splits", args=(16,)), create("tests/two_splits", args=(32,))
    base = model_of(task).spawn_base_model()
    assert not base.fit_log(records_of(known), 8, min_seed_records=500)
    assert base.fit_log(records_of(known), 8, min_seed_records=4)
    model = model_of(task)
    model.load_basemodel(base)
    xs, speeds = range(len(task.config_space)), np.array(speeds_of(task))
    before = model.predict(xs)
    assert before[speeds == speeds.max()].mean() > before[speeds == speeds.min()].mean()
    model.fit(xs, speeds, plan_size=8)
    assert model.predict(xs).shape == before.shape


def test_a_tuner_takes_over_a_history_that_is_long_enough() -> None:
    from tilewright.autotvm import XGBTuner

    known, task = create("tests/two_splits", args=(16,)), create("tests/two_splits", args=(32,))
    records = records_of(known)
    tuner = XGBTuner(task)
    tuner.load_history(records, min_seed_records=len(records) + 1)
    assert tuner.cost_model.base_model is None
    tuner.load_history(records, min_seed_records=len(records))
    assert tuner.cost_model.base_model is not None
    first = tuner.next_batch(4)
    assert tuner.visited == {config.index for config in first}
    inputs = [MeasureInput(task.target, task, config) for config in first]
    results = [MeasureResult((1.0,), 0, 0, 0)] * 3 + [MeasureResult(("no",), 4, 0, 0)]
    tuner.update(inputs, results)
    assert tuner.xs == [config.index for config in first]
    assert tuner.ys == [task.flop] * 3 + [0.0] and tuner.flops_max == task.flop


def test_what_it_cannot_be_is_told() -> None:
    task = create("tests/two_splits", args=(16,))
    with pytest.raises(InputError, match="has no 'mse'; there are: rank, reg"):
        model_of(task, loss_type="mse")
    with pytest.raises(InputError, match="see knobs alone are of one task"):
        model_of(task).load_basemodel(model_of(task, feature_type="knob"))
