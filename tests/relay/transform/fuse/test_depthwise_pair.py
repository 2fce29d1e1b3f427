"""Depthwise convolutions that join the 1x1 convolution behind them, with the values kept."""

from __future__ import annotations

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform import alter_layout, fold_constant, fuse_ops, infer_type

CHANNELS = 32


def _depthwise(size: int) -> relay.Expr:
    expanded = relay.nn.relu(relay.nn.conv2d(relay.var("x", shape=(1, 32, size, size)), weights(CHANNELS, 32, 1, 1)))
    conv = relay.nn.conv2d(expanded, weights(CHANNELS, 1, 3, 3), padding=1, groups=CHANNELS)
    return relay.clip(conv, 0.0, 6.0)


def _kernels(result: relay.Expr) -> list[list[str]]:
    """The operators of each kernel with a convolution."""
    before = infer_type(fold_constant(alter_layout(module(result), backend_of(None))))
    after = fuse_ops(before, backend=backend_of(None))
    assert_same(before, after, rtol=1e-4)
    found = [op_names(module(call.op.body)) for call in calls(after["main"].body)]
    return [names for names in found if "nn.conv2d" in names]


def test_a_pair_is_one_kernel() -> None:
    project = relay.nn.conv2d(_depthwise(14), weights(16, CHANNELS, 1, 1))
    residual = relay.add(project, relay.var("r", shape=(1, 16, 14, 14)))
    assert _kernels(residual)[1][:3] == ["nn.conv2d", "clip", "nn.conv2d"]


def test_a_1x1_behind_a_pair_stays_apart() -> None:
    project = relay.nn.conv2d(_depthwise(14), weights(CHANNELS, CHANNELS, 1, 1))
    again = relay.nn.conv2d(project, weights(16, CHANNELS, 1, 1))
    assert [names.count("nn.conv2d") for names in _kernels(again)] == [1, 2, 1]


@pytest.mark.parametrize(("size", "kernel", "stride"), [(7, 1, 1), (14, 3, 1), (28, 1, 2)])
def test_others_stay_apart(size: int, kernel: int, stride: int) -> None:
    conv = relay.nn.conv2d(_depthwise(size), weights(16, CHANNELS, kernel, kernel), padding=kernel // 2, strides=stride)
    assert [names.count("nn.conv2d") for names in _kernels(conv)] == [1, 1, 1]


def test_a_result_that_is_read_twice_stays_apart() -> None:
    data = _depthwise(14)
    both = relay.Tuple([relay.nn.conv2d(data, weights(16, CHANNELS, 1, 1)), relay.mean(data, axis=(2, 3))])
    assert [names.count("nn.conv2d") for names in _kernels(both)] == [1, 1, 1]
