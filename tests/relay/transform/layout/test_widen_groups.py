"""Small groups are joined, their values stay, and the layouts that follow are blocked."""

from __future__ import annotations

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.layout.widen_groups import widen_groups
from tilewright.target import Target

TARGET = Target("llvm -mcpu=znver4")


def _grouped(channels: int, filters: int, groups: int) -> relay.Expr:
    data = relay.var("x", shape=(1, channels, 9, 10))
    return relay.nn.conv2d(data, weights(filters, channels // groups, 3, 3), padding=1, groups=groups)


@pytest.mark.parametrize(("channels", "filters", "groups", "after"), [(32, 32, 4, 2), (24, 48, 6, 3), (96, 96, 4, 2)])
def test_half_vectors_of_groups_are_joined(channels: int, filters: int, groups: int, after: int) -> None:
    before = module(_grouped(channels, filters, groups))
    mod = widen_groups(before, backend_of(TARGET))
    (call,) = calls(mod["main"].body)
    assert call.attrs.groups == after and call.args[1].data.shape[1] == channels // after
    assert call.attrs.joined == groups // after
    assert_same(before, mod)


@pytest.mark.parametrize(("channels", "filters", "groups"), [(32, 32, 2), (32, 32, 32), (48, 48, 3), (32, 32, 8)])
def test_other_groups_stay(channels: int, filters: int, groups: int) -> None:
    (call,) = calls(widen_groups(module(_grouped(channels, filters, groups)), backend_of(TARGET))["main"].body)
    assert call.attrs.groups == groups


def test_weights_that_are_no_constants_stay() -> None:
    data, weight = relay.var("x", shape=(1, 32, 9, 9)), relay.var("w", shape=(32, 8, 3, 3))
    (call,) = calls(widen_groups(module(relay.nn.conv2d(data, weight, groups=4)), backend_of(TARGET))["main"].body)
    assert call.attrs.groups == 4


def test_a_grouped_convolution_between_others_runs_blocked() -> None:
    x = relay.nn.conv2d(relay.var("x", shape=(1, 32, 14, 14)), weights(256, 32, 1, 1))
    x = relay.nn.conv2d(x, weights(256, 8, 3, 3), padding=1, groups=32)
    before = module(relay.nn.conv2d(x, weights(64, 256, 1, 1)))
    mod = alter_layout(widen_groups(before, backend_of(TARGET)), backend_of(TARGET))
    assert_same(before, mod, rtol=1e-4)
    (grouped,) = [c for c in calls(mod["main"].body) if c.op.name == "nn.conv2d" and c.attrs.groups > 1]
    assert grouped.attrs.data_layout == grouped.attrs.out_layout == "NCHW16c"
    assert op_names(mod) == ["nn.conv2d", "nn.conv2d", "nn.conv2d", "layout_transform"]
