"""Layouts chosen by cost over a graph: where changes of layout stand, and that they pay."""

from __future__ import annotations

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform import alter_layout
from tilewright.relay.transform.layout.layout_plan import keeps_order, plan_layouts
from tilewright.target import Target

TARGET = Target("llvm -mcpu=znver4 -cores=2")
nn = relay.nn


def _image(channels: int, size: int) -> relay.Expr:
    return relay.var("x", shape=(1, channels, size, size))


def _conv(x: relay.Expr, channels: int, filters: int, kernel: int = 1, **attrs: int) -> relay.Expr:
    per_group = channels // attrs.get("groups", 1)
    return nn.conv2d(x, weights(filters, per_group, kernel, kernel), padding=kernel // 2, **attrs)


def _layouts(result: relay.Expr) -> list[str]:
    """data->out of every convolution, in order, after the pass."""
    mod = module(result)
    after = alter_layout(mod, backend_of(TARGET))
    assert_same(mod, after, rtol=1e-4)
    found = [call.attrs for call in calls(after["main"].body) if "data_layout" in call.attrs]
    return [f"{attrs.data_layout}->{attrs.get('out_layout') or attrs.data_layout}" for attrs in found]


@pytest.mark.parametrize(
    ("single", "wanted"),
    [
        (lambda: _conv(_image(64, 56), 64, 64), "NCHW->NCHW"),  # pixels enough for vectors of them
        (lambda: _conv(_image(256, 14), 256, 512, strides=2), "NCHW->NCHW16c"),  # 49 pixels are no whole vectors
        (lambda: _conv(_image(64, 56), 64, 64, 3), "NCHW16c->NCHW16c"),  # filtering saves more than transforms cost
        (lambda: _conv(_image(3, 224), 3, 64, 7, strides=2), "NCHW->NCHW"),
        (lambda: _conv(_image(64, 56), 64, 64, 3, groups=64), "NCHW->NCHW"),
        (lambda: _conv(_image(512, 7), 512, 512, 3, groups=512), "NCHW16c->NCHW16c"),
    ],
)
def test_a_convolution_alone(single, wanted):
    assert _layouts(single()) == [wanted]


def test_between_blocked_neighbours_everything_is_blocked():
    """A convolution that runs plain when alone is blocked where plain would cost two changes of layout."""
    x = _conv(_image(64, 28), 64, 64, 3)
    x = _conv(_conv(nn.relu(x), 64, 64), 64, 64, 3, groups=64)
    assert _layouts(_conv(x, 64, 64, 3)) == ["NCHW16c->NCHW16c"] * 4


def test_the_plan_costs_no_more_than_any_single_change():
    x = _conv(_conv(_image(64, 28), 64, 128), 128, 64, 3)
    body = nn.softmax(_conv(nn.relu(x), 64, 64), axis=1)
    mod = relay.transform.infer_type(module(body))
    plan = plan_layouts(mod["main"].body, backend_of(TARGET))
    assert plan.cost > 0 and plan.transforms
    undecided = plan_layouts(mod["main"].body, backend_of(None))
    assert undecided.cost == 0 and set(undecided.choices) == set(plan.choices)


def test_weights_and_orders_that_stay_cost_nothing():
    pooled = nn.global_avg_pool2d(_conv(_image(64, 28), 64, 64, 3))
    mod = relay.transform.infer_type(module(relay.reshape(pooled, (1, 64))))
    assert list(plan_layouts(mod["main"].body, backend_of(TARGET)).transforms) == [(mod["main"].params[0], "NCHW16c")]
    assert op_names(alter_layout(mod, backend_of(TARGET))).count("layout_transform") == 1
    assert keeps_order((1, 2, 1, 1, 16), "NCHW16c", (1, 32, 1, 1), "NCHW")
    assert not keeps_order((1, 2, 1, 3, 16), "NCHW16c", (1, 32, 1, 3), "NCHW")
