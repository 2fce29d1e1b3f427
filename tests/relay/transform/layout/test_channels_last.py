"""Narrow convolutions with channels last: the order of weights, channels of zeros, that values stay."""

import numpy as np

from tests.relay.helpers import assert_same, module, weights
from tilewright import relay
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.channels_last import channels_last


def _half(*shape):
    return relay.const(weights(*shape).data.astype("float16"))


def _layouts(mod):
    found = [call for call in calls(mod["main"].body) if "kernel_layout" in call.attrs]
    return [(call.attrs["data_layout"], call.attrs["kernel_layout"], call.args[0].checked_type.shape) for call in found]


def test_terms_are_last_in_images_and_weights_and_filters_of_groups_are() -> None:
    x = relay.var("x", shape=(1, 3, 8, 9), dtype="float16")
    first = relay.nn.conv2d(x, _half(8, 3, 3, 3), padding=(1, 1), strides=(2, 2))
    depthwise = relay.nn.conv2d(relay.nn.relu(first), _half(8, 1, 3, 3), groups=8)
    mod = module(relay.nn.conv2d(depthwise, _half(5, 8, 1, 1)))
    after = channels_last(mod)
    assert _layouts(after) == [
        ("NHWC", "OHWI", (1, 8, 9, 4)),
        ("NHWC", "HWIO", (1, 4, 5, 8)),
        ("NHWC", "OHWI", (1, 2, 3, 8)),
    ]
    assert_same(mod, after, rtol=1e-2)


def test_wide_convolutions_stay() -> None:
    mod = module(relay.nn.conv2d(relay.var("x", shape=(1, 3, 8, 9)), weights(8, 3, 3, 3)))
    assert _layouts(channels_last(mod)) == [("NCHW", "OIHW", (1, 3, 8, 9))]


def test_bytes_are_convolved_alike() -> None:
    values = np.random.default_rng(0).integers(-9, 9, (4, 16, 3, 3)).astype("int8")
    x = relay.var("x", shape=(1, 16, 6, 6), dtype="int8")
    mod = module(relay.nn.conv2d(x, relay.const(values), padding=(1, 1), out_dtype="int32"))
    after = channels_last(mod)
    assert [layouts[:2] for layouts in _layouts(after)] == [("NHWC", "OHWI")]
    assert_same(mod, after)
