"""Costs of layers: what stays in float, the table of energies, the front and its picture."""

import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

import tilewright as tw
from tests.quantize.models import images, network, perceptron, rows
from tilewright.errors import InputError
from tilewright.quantize.cost import Cost, Whole, conversion, costs, total, whole, why_costlier
from tilewright.quantize.energy import joules


def test_energy_is_that_of_the_table():
    # a thousand products of floats on 1 kB in an 8 kB cache: 4.6 pJ each, 10 pJ for eight bytes
    assert joules(1000, "float32", 1024) == pytest.approx((4600 + 1280) * 1e-12)
    assert joules(1000, "int8", 2 << 20) == pytest.approx((300 + 1300 / 8 * (2 << 20)) * 1e-12)


def test_a_layer_stays_in_float_where_it_costs_measurably_more():
    fast, slow = Cost(100e-6, 1000, 1e-6), Cost(200e-6, 900, 1e-6)
    assert why_costlier(slow, fast, "time") == "in integers it costs 200 us, in float 100 us"
    assert why_costlier(fast, slow, "time") == ""
    assert why_costlier(slow, fast, "memory") == ""
    assert why_costlier(Cost(15e-6), Cost(5e-6), "time") == ""


def kernel(source, seconds, flops=0, nbytes=0):
    return SimpleNamespace(source=source, seconds=seconds, flops=flops, nbytes=nbytes)


def test_kernels_belong_to_the_first_product_that_they_compute():
    layers = [SimpleNamespace(name=name, channels=size) for name, size in (("sum", 0), ("conv", 8), ("conv#2", 8))]
    turns = iter(
        [[kernel("sum;conv", 3.0, 10, 4), kernel("other", 1.0)], [kernel("sum;conv", 2.0, 10, 4), kernel("other", 1.5)]]
        * 2
    )
    model = SimpleNamespace(inputs=[], profile=lambda given, repeat: next(turns))
    (found,) = costs([model], {}, layers, [["conv"]])
    assert {name: cost.seconds for name, cost in found.items()} == {"conv": 2.0, "": 1.0}
    assert found["conv"].joules == joules(5, "int8", 4)
    assert total(found).seconds == 3.0


def test_whole_models_are_timed_with_a_control():
    def model(rounds):
        return SimpleNamespace(inputs=[], threads=1, run=lambda given: sum(range(rounds)))

    found = whole(model(1000), model(3000), {})
    assert 2.0 < found.integer / found.exact < 4.5
    assert found.slower
    assert not whole(model(3000), model(1000), {}).slower
    assert not Whole(1e-3, 1.02e-3, 0.02e-3).slower
    assert Whole(1e-3, 1.05e-3, 0.2e-3).slower
    assert Whole(1e-3, 1.03e-3, 0.02e-3).text() == "the model takes 1.030 ms, in float 1.000 ms"


def test_a_conversion_costs_by_its_elements():
    assert conversion(1000, "memory") == 5000
    assert conversion(1000, "energy") == joules(0, "int8", 5000)
    assert 0 < conversion(1000, "time") < 1e-4


def test_the_front_goes_from_all_layers_in_integers_to_none():
    found = tw.quantize(network(), images(), threads=1, objective="memory", measure="relative", front=True)
    first, *_, last = found.front
    assert first.in_float == 0
    assert last.in_float == len(found.recipe.quantized)
    assert last.loss < 1e-6 < first.loss
    assert last.cost.joules > first.cost.joules > 0
    drawn = ET.fromstring(found.picture())
    texts = ["".join(node.itertext()) for node in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert all(any(name in text for text in texts) for name in [*found.recipe.quantized, "time", "memory", "energy"])


def test_objectives_have_names():
    with pytest.raises(InputError, match="objective is one of time, memory, energy"):
        tw.quantize(perceptron(), rows(), objective="joules")
