"""Layouts: what is blocked, where transforms stand, and that values stay the same."""

from collections.abc import Callable

import pytest

from tests.relay.helpers import assert_same, module, op_names, small_cnn, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform import alter_layout, fold_constant, fold_scale_axis, simplify_expr, simplify_inference

nn = relay.nn


def _altered(mod: relay.IRModule) -> relay.IRModule:
    after = alter_layout(mod, backend_of(None))
    assert_same(mod, after, rtol=1e-4)
    return after


def _data_layouts(mod: relay.IRModule) -> list[str]:
    found = [call.attrs for call in calls(mod["main"].body) if "data_layout" in call.attrs]
    return [f"{attrs.data_layout}->{attrs.out_layout}" for attrs in found]


def test_first_convolution_reads_plain_and_the_chain_stays_blocked() -> None:
    x = relay.var("x", shape=(1, 3, 6, 6))
    y = nn.relu(nn.conv2d(x, weights(16, 3, 3, 3)))
    y = nn.conv2d(nn.conv2d(y, weights(16, 1, 3, 3), groups=16), weights(8, 16, 1, 1))
    after = _altered(module(y))
    assert _data_layouts(after) == ["NCHW->NCHW16c", "NCHW16c->NCHW16c", "NCHW16c->NCHW8c"]
    assert op_names(after) == ["nn.conv2d", "nn.relu", "nn.conv2d", "nn.conv2d", "layout_transform"]


def test_whole_network_has_no_transform_but_free_reshapes() -> None:
    mod = small_cnn()
    for graph_pass in (simplify_inference, fold_scale_axis, simplify_expr, fold_constant):
        mod = relay.transform.infer_type(graph_pass(mod))
    names = op_names(_altered(mod))
    assert names.count("layout_transform") == 0
    assert names.count("nn.conv2d") == 7


FOLLOWERS: list[tuple[str, Callable[[relay.Expr], relay.Expr]]] = [
    ("unary", lambda y: relay.clip(relay.tanh(y), -0.5, 0.5)),
    ("scalar", lambda y: relay.multiply(relay.add(y, 1.5), relay.const([[[[2.0]]]]))),
    ("channel vector", lambda y: relay.multiply(weights(16, 1, 1), y)),
    ("map of one channel", lambda y: relay.multiply(y, relay.sigmoid(relay.var("m", shape=(1, 1, 6, 6))))),
    ("row", lambda y: relay.add(y, relay.var("r", shape=(6,)))),
    ("full operand", lambda y: relay.maximum(relay.var("f", shape=(1, 16, 6, 6)), y)),
    ("where", lambda y: relay.where(relay.less(y, 0.0), relay.exp(y), y)),
    ("bias and prelu", lambda y: nn.prelu(nn.bias_add(y, weights(16)), weights(16, seed=1))),
    ("max_pool2d", lambda y: nn.max_pool2d(y, (3, 3), padding=(1, 1))),
    ("avg_pool2d", lambda y: nn.avg_pool2d(y, (2, 2), strides=(2, 2))),
    ("global pool", lambda y: relay.multiply(y, nn.global_avg_pool2d(y))),
    ("adaptive pool", lambda y: nn.adaptive_avg_pool2d(y, (3, 3))),
    ("resize", lambda y: relay.image.resize2d(y, (12, 12), method="nearest_neighbor")),
    ("pad", lambda y: nn.pad(y, [(0, 0), (0, 0), (1, 1), (2, 0)])),
    ("reduce", lambda y: relay.max(y, axis=(-1,), keepdims=True)),
    ("concatenate channels", lambda y: relay.concatenate([y, nn.conv2d(y, weights(8, 16, 1, 1))], axis=1)),
    ("concatenate rows", lambda y: relay.concatenate([y, relay.exp(y)], axis=-2)),
]


@pytest.mark.parametrize("build", [b for _, b in FOLLOWERS], ids=[name for name, _ in FOLLOWERS])
def test_followers_stay_blocked(build: Callable[[relay.Expr], relay.Expr]) -> None:
    y = build(nn.conv2d(relay.var("x", shape=(1, 3, 6, 6)), weights(16, 3, 1, 1)))
    channels = relay.tensor_type_of(y).shape[1]
    mod = module(nn.conv2d(y, weights(16, channels, 1, 1)))
    # The result is transformed back; so are a full operand that is fed and a value joined with narrower blocks.
    wanted = 1 + any(param.name == "f" for param in mod["main"].params) + (channels == 24)
    assert op_names(_altered(mod)).count("layout_transform") == wanted


PLAIN: list[tuple[str, Callable[[relay.Expr], relay.Expr]]] = [
    ("softmax over channels", lambda y: nn.softmax(y, axis=1)),
    ("transpose", lambda y: relay.transpose(y, (0, 2, 3, 1))),
    ("reduce channels", lambda y: relay.sum(y, axis=1, keepdims=True)),
    ("pad channels", lambda y: nn.pad(y, [(0, 0), (0, 3), (0, 0), (0, 0)])),
    ("odd concatenation", lambda y: relay.concatenate([y, relay.var("o", shape=(1, 3, 6, 6))], axis=1)),
    ("five dimensions", lambda y: relay.add(y, relay.var("v", shape=(2, 1, 1, 1, 6)))),
]


@pytest.mark.parametrize("build", [b for _, b in PLAIN], ids=[name for name, _ in PLAIN])
def test_others_read_plain(build: Callable[[relay.Expr], relay.Expr]) -> None:
    y = nn.conv2d(relay.var("x", shape=(1, 3, 6, 6)), weights(16, 3, 1, 1))
    assert op_names(_altered(module(build(y))))[:2] == ["nn.conv2d", "layout_transform"]


@pytest.mark.parametrize("axis,parts", [(1, 2), (1, (4, 12)), (2, 3)])
def test_split_fields_are_transformed_back_one_by_one(axis: int, parts: int | tuple[int, ...]) -> None:
    y = nn.conv2d(relay.var("x", shape=(1, 3, 6, 6)), weights(16, 3, 1, 1))
    mod = module(relay.Tuple([relay.exp(relay.split(y, parts, axis=axis)[0]), y]))
    names = op_names(_altered(mod))
    assert names.count("layout_transform") <= 2


def test_a_value_is_transformed_once_per_layout() -> None:
    y = nn.conv2d(relay.var("x", shape=(1, 3, 6, 6)), weights(16, 3, 1, 1))
    both = relay.Tuple([relay.transpose(y), nn.softmax(y, axis=1), y])
    assert op_names(_altered(module(both))).count("layout_transform") == 1


def test_odd_channels_keep_the_plain_layout() -> None:
    x = relay.var("x", shape=(1, 3, 6, 6))
    mod = module(nn.relu(nn.conv2d(x, weights(6, 3, 3, 3))))
    assert op_names(_altered(mod)) == ["nn.conv2d", "nn.relu"]


def test_squeeze_to_odd_channels_costs_a_reshape_only() -> None:
    y = nn.conv2d(relay.var("x", shape=(1, 3, 6, 6)), weights(16, 3, 1, 1))
    gate = nn.conv2d(nn.relu(nn.conv2d(nn.global_avg_pool2d(y), weights(6, 16, 1, 1))), weights(16, 6, 1, 1))
    names = op_names(_altered(module(nn.conv2d(relay.multiply(y, gate), weights(16, 16, 1, 1)))))
    assert names.count("layout_transform") == 1 and names.count("reshape") == 1


def test_weights_that_are_fed_are_transformed_at_run_time() -> None:
    x, w = relay.var("x", shape=(1, 16, 6, 6)), relay.var("w", shape=(16, 16, 3, 3))
    assert op_names(_altered(module(nn.conv2d(x, w)))).count("layout_transform") == 3
