"""Rewrites of single operators: fast mathematics, dilation, legalization, scales moved forward, numbered calls."""

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module, op_names, weights
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.manager.capture_post_dfs_index_in_spans import capture_post_dfs_index_in_spans
from tilewright.relay.transform.simplify.fast_math import fast_math
from tilewright.relay.transform.simplify.flatten_atrous_conv import flatten_atrous_conv
from tilewright.relay.transform.simplify.forward_fold_scale_axis import forward_fold_scale_axis
from tilewright.relay.transform.simplify.legalize import legalization, legalize


def test_fast_versions_stay_close() -> None:
    x = relay.var("x", shape=(2, 5))
    mod = module(relay.nn.softmax(relay.erf(relay.tanh(relay.exp(x)))))
    after = fast_math(mod)
    assert op_names(after) == ["fast_exp", "fast_tanh", "fast_erf", "nn.fast_softmax"]
    assert_same(mod, after, rtol=1e-3)


def _atrous(channels_first: bool, pad: int = 2, crop: int = 0) -> relay.IRModule:
    layout, kernel = ("NCHW", (4, 3, 3, 3)) if channels_first else ("NHWC", (3, 3, 3, 4))
    x = relay.var("x", shape=(1, 3, 8, 8) if channels_first else (1, 8, 8, 3))
    lead = (1,) if channels_first else ()
    cut = relay.nn.space_to_batch_nd(x, (*lead, 2, 2), [*[(0, 0)] * len(lead), (pad, pad), (pad, pad)])
    conv = relay.nn.conv2d(
        cut, weights(*kernel), data_layout=layout, kernel_layout="OIHW" if channels_first else "HWIO"
    )
    crops = [*[(0, 0)] * len(lead), (crop, crop), (crop, crop)]
    return module(relay.nn.batch_to_space_nd(conv, (*lead, 2, 2), crops))


@pytest.mark.parametrize(("channels_first", "pad", "crop"), [(False, 2, 0), (True, 2, 0), (False, 3, 1), (True, 0, 0)])
def test_a_convolution_between_cuts_is_a_dilated_one(channels_first: bool, pad: int, crop: int) -> None:
    mod = _atrous(channels_first, pad, crop)
    after = flatten_atrous_conv(mod)
    assert op_names(after) == ["nn.conv2d"]
    (conv,) = calls(after["main"].body)
    assert conv.attrs.dilation == (2, 2) and conv.attrs.padding == (pad - crop,) * 4
    assert_same(mod, after)


def test_cuts_that_crop_more_than_they_pad_stay() -> None:
    mod = _atrous(False, pad=0, crop=1)
    assert flatten_atrous_conv(mod) is mod


def test_rules_of_the_program_s_own_legalize_calls() -> None:
    x = relay.var("x", shape=(2, 3))
    mod = module(relay.nn.relu(relay.exp(x)))

    def by_power(attrs: relay.Attrs, args: list[relay.Expr], types: list[relay.Type]) -> relay.Expr:
        assert types[0] == types[-1] == relay.TensorType((2, 3))
        return relay.power(relay.const(np.float32(np.e)), args[0])

    assert legalize(mod) is mod
    with legalization("exp", by_power):
        after = legalize(mod)
    assert op_names(after) == ["power", "nn.relu"]
    assert_same(mod, after, rtol=1e-4)
    assert op_names(legalize(mod, {"nn.relu": lambda attrs, args, types: None})) == ["exp", "nn.relu"]
    with pytest.raises(UnsupportedError, match=r"no Relay operator 'nn.conv9d'"), legalization("nn.conv9d", by_power):
        pass


@pytest.mark.parametrize("between", ["nothing", "relu", "pool"])
def test_positive_scales_move_into_the_weights_that_follow(between: str) -> None:
    x = relay.var("x", shape=(1, 3, 6, 6))
    y: relay.Expr = relay.multiply(x, relay.const(np.array([0.5, 2, 3], "float32").reshape(3, 1, 1)))
    if between == "relu":
        y = relay.nn.relu(y)
    elif between == "pool":
        y = relay.nn.max_pool2d(y, (2, 2))
    mod = module(relay.nn.conv2d(y, weights(4, 3, 3, 3), padding=1))
    after = forward_fold_scale_axis(mod)
    assert "multiply" not in op_names(after)
    assert_same(mod, after)


def test_scales_of_dense_layers_move_and_negative_or_shared_ones_stay() -> None:
    x, scale = relay.var("x", shape=(2, 3)), relay.const(np.array([-1, 2, 3], "float32"))
    scaled = relay.multiply(x, scale)
    mod = module(relay.nn.dense(scaled, weights(4, 3)))
    assert op_names(forward_fold_scale_axis(mod)) == ["nn.dense"]
    assert_same(mod, forward_fold_scale_axis(mod))
    through_relu = module(relay.nn.dense(relay.nn.relu(relay.multiply(x, scale)), weights(4, 3)))
    assert forward_fold_scale_axis(through_relu) is through_relu
    shared = module(relay.Tuple([scaled, relay.nn.dense(scaled, weights(4, 3))]))
    assert forward_fold_scale_axis(shared) is shared


def test_calls_are_numbered_in_order_of_evaluation() -> None:
    x = relay.var("x", shape=(2,))
    mod = module(relay.exp(relay.tanh(x)))
    spans = [call.span for call in calls(capture_post_dfs_index_in_spans(mod)["main"].body)]
    assert spans == ["index:1", "index:2"]
