"""The choice of layers in integers: by costs that are given, and by the time of the whole model."""

import pytest

import tilewright as tw
from tests.quantize.models import images, network, perceptron, rows
from tilewright.errors import InputError
from tilewright.quantize import selection
from tilewright.quantize.cost import Cost, Whole


def given(monkeypatch, exact, integer, whole=None):
    """Costs in microseconds by layer, and the time of whole models by the number of layers in integers."""
    tried = []

    def costs(models, inputs, layers, integers):
        tried.append(list(integers[1]))
        return [{name: Cost(value * 1e-6) for name, value in one.items()} for one in (exact, integer)]

    monkeypatch.setattr(selection, "costs", costs)
    monkeypatch.setattr(selection, "conversion", lambda size, objective: 3e-6)
    monkeypatch.setattr(selection, "whole", lambda *_: (whole or (lambda on: Whole(1.0, 0.5, 0.0)))(tried[-1]))
    return tried


def test_layers_that_cost_more_stay_in_float_and_say_so(monkeypatch):
    given(monkeypatch, {"inner": 100, "outer": 10}, {"inner": 50, "outer": 30})
    found = tw.quantize(perceptron(), rows(), threads=1)
    assert {name: one.in_float for name, one in found.recipe.choices.items()} == {
        "inner": "", "outer": "in integers it costs 30 us, in float 10 us",
    }  # fmt: skip
    assert {name: [round(cost.seconds * 1e6) for cost in pair] for name, pair in found.costs.items()} == {
        "inner": [100, 50], "outer": [10, 30],
    }  # fmt: skip


def test_a_layer_is_not_worth_conversions_that_cost_more(monkeypatch):
    given(monkeypatch, {"inner": 100, "outer": 10}, {"inner": 130, "outer": 7.5})
    reasons = [one.in_float for one in tw.quantize(perceptron(), rows(), threads=1).recipe.choices.values()]
    assert reasons[0].startswith("in integers it costs")
    assert reasons[1] == "integers save 2 us, less than the conversions around it cost"


def test_a_layer_that_costs_little_more_stays_between_others(monkeypatch):
    given(monkeypatch, {"inner": 100, "outer": 10}, {"inner": 50, "outer": 12.9})
    assert tw.quantize(perceptron(), rows(), threads=1).recipe.quantized == ["inner", "outer"]


@pytest.mark.long
def test_regions_leave_until_the_whole_is_no_slower(monkeypatch):
    names = list(tw.quantize(network(), images(), threads=1, objective=None).recipe.choices)
    exact, integer = dict.fromkeys(names, 20.0), dict.fromkeys(names, 8.0)
    tried = given(monkeypatch, exact, integer, lambda on: Whole(1.0, 1.1 if len(on) > 2 else 0.9, 0.0))
    found = tw.quantize(network(), images(), threads=1).recipe
    assert 0 < len(found.quantized) <= 2
    assert [len(one) for one in tried] == sorted((len(one) for one in tried), reverse=True)
    reasons = {one.in_float for one in found.choices.values() if one.in_float}
    assert reasons <= {
        "with it the model takes 1100.000 ms, in float 1000.000 ms",
        "integers save 12 us, less than the conversions around it cost",
    }
    assert found.settings["costs"]["whole"] == "the model takes 900.000 ms, in float 1000.000 ms"


def test_a_model_slower_in_integers_stays_in_float(monkeypatch):
    given(monkeypatch, {"inner": 20, "outer": 20}, {"inner": 8, "outer": 8}, lambda on: Whole(1.0, 1.1, 0.0))
    found = tw.quantize(perceptron(), rows(), threads=1, max_loss=0.1, measure="relative")
    assert found.recipe.quantized == []
    assert all("with it the model takes" in one.in_float for one in found.recipe.choices.values())
    assert found.recipe.losses["relative"] < 1e-6


def test_layers_that_leave_for_the_budget_are_tried_for_their_time_again(monkeypatch):
    bound = tw.quantize(perceptron(), rows(), threads=1, objective=None).recipe.losses["relative"] * 1.1
    tried = given(monkeypatch, {"inner": 20, "outer": 20}, {"inner": 8, "outer": 8})
    found = tw.quantize(perceptron(), rows(), threads=1, max_loss=bound, measure="relative").recipe
    (on,) = found.quantized
    assert tried[0] == ["inner", "outer"]
    assert tried[-1] == [on]


def test_a_budget_that_only_layers_not_worth_it_keep_is_out_of_reach(monkeypatch):
    given(monkeypatch, {"inner": 20, "outer": 10}, {"inner": 8, "outer": 18})
    with pytest.raises(InputError, match="does not hold with a single layer in integers that is worth it"):
        tw.quantize(perceptron(), rows(), threads=1, max_loss=0.0001, measure="relative")
