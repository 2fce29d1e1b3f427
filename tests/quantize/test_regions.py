"""Layers in integers by a minimum cut: against all choices of small graphs, and on models."""

import itertools

import numpy as np

from tests.quantize.models import network
from tilewright.frontend.formats.import_model import import_model
from tilewright.quantize.layers import layers, prepared
from tilewright.quantize.regions import cheapest, edges


def cost_of(on, exact, integer, links):
    crossed = sum(cost for (a, b), cost in links.items() if (a in on) != (b in on))
    return sum(integer[name] if name in on else exact[name] for name in exact) + crossed


def test_the_choice_is_the_cheapest_of_all():
    rng = np.random.default_rng(8)
    sizes = []
    for _ in range(60):
        names = [f"layer{i}" for i in range(rng.integers(1, 8))]
        exact, integer = (dict(zip(names, rng.integers(0, 9, len(names)) * 1e-6)) for _ in range(2))
        links = {(a, b): rng.integers(0, 4) * 1e-6 for a, b in itertools.combinations(names, 2) if rng.random() < 0.5}
        out = {name for name in names if rng.random() < 0.15}
        on = cheapest(exact, integer, links, out)
        assert not on & out
        free = [name for name in names if name not in out]
        every = [set(one) for size in range(len(free) + 1) for one in itertools.combinations(free, size)]
        least = min(cost_of(one, exact, integer, links) for one in every)
        assert abs(cost_of(on, exact, integer, links) - least) < 1e-12
        # of equal choices that with the most layers in integers
        assert len(on) == max(len(one) for one in every if cost_of(one, exact, integer, links) < least + 1e-12)
        sizes.append(len(on))
    assert {0, 1, 3} <= set(sizes)


def test_a_layer_between_others_stays_where_conversions_cost_more():
    exact, integer = {"a": 5.0, "b": 1.0, "c": 5.0}, {"a": 2.0, "b": 2.0, "c": 2.0}
    assert cheapest(exact, integer, {("a", "b"): 1.0, ("b", "c"): 1.0}, ()) == {"a", "b", "c"}
    assert cheapest(exact, integer, {("a", "b"): 0.4, ("b", "c"): 0.4}, ()) == {"a", "c"}
    assert cheapest(exact, integer, {("a", "b"): 9.0, ("b", "c"): 9.0}, {"b"}) == set()


def test_tensors_lead_from_layer_to_layer_through_activations():
    found = layers(prepared(import_model(network(), None), fold_scales=True)["main"])
    names = [layer.name for layer in found]
    assert edges(found) == [
        (names[0], "depthwise", 512), ("depthwise", "residual", 512), (names[0], "residual", 512),
        ("residual", "pool", 512), ("pool", "wide", 8), ("wide", "classes", 16),
    ]  # fmt: skip
