"""Layouts as asked for: which calls change, where transpositions stand, that results are the same."""

import pytest

from tests.relay.helpers import assert_same, module, op_names, small_cnn, weights
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.convert_layout import LayoutConfig, convert_layout
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference


def _layouts(mod: relay.IRModule, name: str) -> set[tuple[str, str]]:
    found = [call.attrs for call in calls(mod["main"].body) if call.op.name == name]  # type: ignore[union-attr]
    return {(attrs.get("data_layout") or attrs.layout, attrs.get("kernel_layout", "")) for attrs in found}


def test_one_convolution_and_what_follows_it() -> None:
    x = relay.var("x", shape=(1, 3, 6, 6))
    y = relay.nn.relu(relay.nn.bias_add(relay.nn.conv2d(x, weights(4, 3, 3, 3)), weights(4)))
    mod = module(relay.nn.max_pool2d(y, (2, 2), strides=(2, 2)))
    after = convert_layout(mod, {"nn.conv2d": ["NHWC", "default"]})
    assert op_names(after) == ["transpose", "nn.conv2d", "nn.bias_add", "nn.relu", "nn.max_pool2d", "transpose"]
    assert _layouts(after, "nn.conv2d") == {("NHWC", "HWIO")}
    assert _layouts(after, "nn.max_pool2d") == {("NHWC", "")}
    assert_same(mod, after)


def test_a_network_is_transposed_at_its_rim_only() -> None:
    mod = simplify_inference(small_cnn())
    after = convert_layout(mod, {"nn.conv2d": ["NHWC", "OHWI"]})
    assert _layouts(after, "nn.conv2d") == {("NHWC", "OHWI")}
    assert op_names(after).count("transpose") <= 3
    assert_same(mod, after, rtol=1e-4)
    back = convert_layout(after, {"nn.conv2d": ["NCHW", "OIHW"], "nn.max_pool2d": "NCHW"})
    assert _layouts(back, "nn.conv2d") == {("NCHW", "OIHW")}
    assert_same(mod, back, rtol=1e-4)


def test_concatenation_reduction_padding_and_softmax_follow() -> None:
    x = relay.var("x", shape=(1, 4, 5, 6))
    y = relay.nn.conv2d(x, weights(4, 4, 1, 1))
    joined = relay.concatenate([y, relay.tanh(y)], axis=1)
    padded = relay.nn.pad(joined, ((0, 0), (1, 0), (0, 2), (3, 0)))
    soft = relay.nn.softmax(padded, axis=1)
    mod = module(relay.add(soft, relay.mean(soft, axis=(2, 3), keepdims=True)))
    after = convert_layout(mod, {"nn.conv2d": "NHWC"})
    assert op_names(after).count("transpose") == 2
    assert_same(mod, after)


def test_what_cannot_follow_gets_the_plain_value_once() -> None:
    x = relay.var("x", shape=(1, 4, 4, 4))
    y = relay.nn.conv2d(x, weights(4, 4, 1, 1))
    mod = module(relay.Tuple([relay.reshape(y, (4, 16)), relay.reshape(y, (16, 4)), relay.nn.relu(y)]))
    after = convert_layout(mod, {"nn.conv2d": "NHWC"})
    assert op_names(after).count("transpose") == 3
    assert_same(mod, after)


def test_pools_alone_and_unknown_requests() -> None:
    x = relay.var("x", shape=(1, 2, 4, 4))
    mod = module(relay.nn.avg_pool2d(x, (2, 2)))
    after = convert_layout(mod, {"nn.avg_pool2d": "NHWC"})
    assert op_names(after) == ["transpose", "nn.avg_pool2d", "transpose"]
    assert_same(mod, after)
    assert convert_layout(mod, {"nn.conv2d": "NHWC"}) is mod
    with pytest.raises(
        UnsupportedError, match=r"nn\.dense has no layout to choose; those that have: .*image.resize1d, "
    ):
        convert_layout(mod, {"nn.dense": "NC"})
    with pytest.raises(UnsupportedError, match=r"in 'NCWX'; it takes an order of N, C, H, W"):
        convert_layout(mod, {"nn.conv2d": "NCWX"})


def test_one_and_three_axes() -> None:
    x = relay.var("x", shape=(1, 3, 9))
    mod = module(relay.nn.max_pool1d(relay.nn.relu(relay.nn.conv1d(x, weights(4, 3, 3))), 2, 2))
    after = convert_layout(mod, {"nn.conv1d": ["NWC", "default"]})
    assert _layouts(after, "nn.conv1d") == {("NWC", "WIO")} and _layouts(after, "nn.max_pool1d") == {("NWC", "")}
    assert op_names(after).count("transpose") == 2
    assert_same(mod, after)
    x = relay.var("x", shape=(1, 3, 4, 5, 6))
    mod = module(relay.nn.relu(relay.nn.conv3d(x, weights(4, 3, 2, 2, 2))))
    after = convert_layout(mod, {"nn.conv3d": "NDHWC"})
    assert _layouts(after, "nn.conv3d") == {("NDHWC", "DHWIO")}
    assert_same(mod, after)
    with pytest.raises(UnsupportedError, match=r"nn\.conv3d in NDHWC needs a kernel layout, an order of O, I, D, H, W"):
        convert_layout(mod, {"nn.conv3d": ["NDHWC", "HWIO"]})


@pytest.mark.parametrize(("skipped", "layouts"), [((0,), ["NCHW", "NHWC"]), ((-1,), ["NHWC", "NCHW"]), ((0, 1), None)])
def test_layers_can_be_skipped(skipped: tuple[int, ...], layouts: list[str] | None) -> None:
    x = relay.var("x", shape=(1, 3, 6, 6))
    first = relay.nn.conv2d(x, weights(4, 3, 3, 3))
    mod = module(relay.nn.conv2d(relay.nn.relu(first), weights(5, 4, 3, 3)))
    with LayoutConfig(skip_layers=skipped):
        after = convert_layout(mod, {"nn.conv2d": "NHWC"})
    found = [c.attrs.data_layout for c in calls(after["main"].body) if c.op.name == "nn.conv2d"]  # type: ignore
    assert found == (layouts or ["NCHW", "NCHW"])
    assert_same(mod, after)
