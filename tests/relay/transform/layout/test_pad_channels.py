"""Channels of zeros: where they come in, that they reach no result, and what passes them on."""

from __future__ import annotations

import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.pad_channels import pad_channels
from tilewright.target import Target

TARGET = Target("llvm -mcpu=skylake-avx512")


def _conv(data: relay.Expr, filters: int, channels: int, size: int = 1, groups: int = 1) -> relay.Expr:
    weight = weights(filters, channels // groups, size, size, seed=filters + size)
    return relay.nn.conv2d(data, weight, padding=size // 2, groups=groups)


def _padded(result: relay.Expr) -> relay.IRModule:
    before = module(result)
    after = pad_channels(before, backend_of(TARGET))
    assert_same(before, after)
    return after


def _filters(mod: relay.IRModule) -> list[int]:
    return [call.args[1].data.shape[0] for call in calls(mod["main"].body) if call.op.name == "nn.conv2d"]


def _input(channels: int) -> relay.Expr:
    return relay.var("x", shape=(1, channels, 9, 10))


def test_between_two_convolutions() -> None:
    x = relay.nn.relu(relay.add(_conv(_input(16), 40, 16), weights(40, 1, 1)))
    mod = _padded(_conv(x, 40, 40))
    assert _filters(mod) == [48, 40] and "strided_slice" not in op_names(mod)


def test_channels_that_are_no_half_vectors() -> None:
    assert _filters(_padded(_conv(_conv(_input(16), 116, 16), 16, 116))) == [128, 16]


def test_depthwise_and_residual() -> None:
    x = relay.nn.relu(_conv(_input(16), 72, 16))
    y = relay.sigmoid(_conv(x, 72, 72, 3, groups=72))
    mod = _padded(_conv(relay.add(x, y), 64, 72))
    assert _filters(mod) == [80, 80, 64] and "strided_slice" not in op_names(mod)


def test_groups_stay_whole() -> None:
    x = _conv(_conv(_input(16), 408, 16), 408, 408, 3, groups=17)
    mod = _padded(_conv(x, 32, 408))
    assert _filters(mod) == [432, 432, 32]
    assert [call.attrs.groups for call in calls(mod["main"].body) if call.op.name == "nn.conv2d"] == [1, 18, 1]


def test_a_mean_of_each_channel_is_cut() -> None:
    x = relay.nn.global_avg_pool2d(relay.nn.relu(_conv(_input(16), 104, 16)))
    mod = _padded(relay.nn.dense(relay.nn.batch_flatten(x), weights(10, 104)))
    assert _filters(mod) == [112] and op_names(mod).count("strided_slice") == 1


def test_squeeze_and_excite() -> None:
    x = relay.nn.relu(_conv(_input(16), 72, 16))
    gate = relay.sigmoid(_conv(relay.nn.global_avg_pool2d(x), 72, 72))
    mod = _padded(_conv(relay.multiply(x, gate), 64, 72))
    assert _filters(mod) == [80, 80, 64] and "strided_slice" not in op_names(mod)


def test_numbers_that_are_none_do_not_spread() -> None:
    """The logarithm of a channel of zeros is no finite number, and nothing times it is not nothing."""
    x = relay.log(relay.abs(_conv(_input(16), 40, 16)))
    mod = _padded(_conv(x, 16, 40))
    assert "strided_slice" in op_names(mod)
    x = relay.divide(_conv(_input(16), 40, 16), weights(40, 1, 1))
    assert "strided_slice" not in op_names(_padded(_conv(x, 16, 40)))


@pytest.mark.parametrize("channels", [24, 48, 50, 42])
def test_little_gained_or_nothing(channels: int) -> None:
    assert _filters(_padded(_conv(_conv(_input(16), channels, 16), 16, channels))) == [channels, 16]


def test_other_readers_need_the_channels_that_were() -> None:
    x = _conv(_input(16), 40, 16)
    assert _filters(_padded(relay.Tuple([_conv(x, 16, 40), relay.transpose(x, (0, 2, 3, 1))]))) == [40, 16]
    assert _filters(_padded(_conv(relay.nn.softmax(x, axis=1), 16, 40))) == [40, 16]


def test_half_vectors_that_cost_nothing_stay() -> None:
    mod = pad_channels(module(_conv(_conv(_input(16), 40, 16), 16, 40)), backend_of(Target("llvm -mcpu=znver4")))
    assert _filters(mod) == [40, 16]
