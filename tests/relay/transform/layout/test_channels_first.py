"""Channels-last convolutions become channels-first ones: what is transposed, what is left, that values stay."""

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import assert_same, module, op_names, small_cnn, weights
from tilewright import relay
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform import fold_constant, infer_type
from tilewright.relay.transform.layout.channels_first import channels_first
from tilewright.relay.transform.layout.convert_layout import convert_layout
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference


def test_a_network_with_channels_last_is_transposed_at_its_rim_only() -> None:
    mod = fold_constant(convert_layout(simplify_inference(small_cnn()), {"nn.conv2d": ["NHWC", "HWIO"]}))
    after = channels_first(mod)
    assert {c.attrs["data_layout"] for c in calls(after["main"].body) if "kernel_layout" in c.attrs} == {"NCHW"}
    assert_same(mod, after, rtol=1e-4)


@pytest.mark.parametrize("layout,kernel", [("NHWC", "HWIO"), ("NHWC", "OHWI"), ("HWNC", "HWOI")])
def test_every_order_of_plain_axes(layout: str, kernel: str) -> None:
    first = relay.nn.conv2d(relay.var("x", shape=(1, 4, 5, 6)), weights(3, 4, 3, 2), padding=(1, 0, 2, 1))
    mod = convert_layout(module(relay.nn.relu(first)), {"nn.conv2d": [layout, kernel]})
    after = channels_first(mod)
    assert [c.attrs["kernel_layout"] for c in calls(after["main"].body) if "kernel_layout" in c.attrs] == ["OIHW"]
    assert_same(mod, after)


def test_convolutions_along_one_and_three_axes() -> None:
    line = relay.nn.conv1d(relay.var("x", shape=(1, 4, 9)), weights(2, 4, 3))
    space = relay.nn.conv3d(relay.var("y", shape=(1, 2, 3, 4, 5)), weights(2, 2, 2, 2, 2))
    mod = convert_layout(module(relay.Tuple([line, space])), {"nn.conv1d": "NWC", "nn.conv3d": "NDHWC"})
    after = channels_first(mod)
    assert {c.attrs["data_layout"] for c in calls(after["main"].body) if "data_layout" in c.attrs} == {"NCW", "NCDHW"}
    assert_same(mod, after)


def test_results_in_another_order_than_the_data_are_transposed() -> None:
    x = relay.var("x", shape=(1, 4, 5, 6))
    mod = module(relay.nn.relu(relay.nn.conv2d(x, weights(3, 4, 3, 3), out_layout="NHWC")))
    assert op_names(channels_first(mod)) == ["nn.conv2d", "transpose", "nn.relu"]
    assert_same(mod, channels_first(mod))
    assert tw.compile(mod)(np.ones((1, 4, 5, 6), "float32")).shape == (1, 3, 4, 3)


def test_other_modules_stay_as_they_are() -> None:
    pool = module(relay.nn.max_pool2d(relay.var("x", shape=(1, 6, 6, 3)), (2, 2), layout="NHWC"))
    network = infer_type(small_cnn())
    blocked = relay.nn.conv2d(
        relay.var("x", shape=(1, 1, 5, 5, 16)), weights(1, 1, 3, 3, 16, 16), data_layout="NCHW16c",
        kernel_layout="OIHW16i16o",
    )  # fmt: skip
    for mod in (pool, network, module(blocked)):
        assert channels_first(mod) is mod


def test_a_blocked_convolution_beside_one_with_channels_last() -> None:
    last = relay.nn.conv2d(
        relay.var("x", shape=(1, 5, 5, 16)), weights(3, 3, 16, 16), data_layout="NHWC", kernel_layout="HWIO"
    )
    packed = relay.layout_transform(last, "NHWC", "NCHW16c")
    blocked = relay.nn.conv2d(packed, weights(1, 1, 3, 3, 16, 16), data_layout="NCHW16c", kernel_layout="OIHW16i16o")
    mod = module(blocked)
    assert_same(mod, channels_first(mod), rtol=1e-4)


def test_compiled_it_computes_the_same() -> None:
    network = simplify_inference(small_cnn())
    last = convert_layout(network, {"nn.conv2d": ["NHWC", "HWIO"], "nn.max_pool2d": "NHWC"})
    x = np.random.default_rng(0).normal(size=tuple(network["main"].params[0].type_annotation.shape))
    want, got = (tw.compile(mod)(x.astype("float32")) for mod in (network, last))
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-4)
