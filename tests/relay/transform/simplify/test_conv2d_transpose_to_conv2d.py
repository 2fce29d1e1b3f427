"""Transposed convolutions as plain ones: the same numbers for all attributes, and what is left as it is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.helpers import op_names
from tilewright import relay
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.simplify.conv2d_transpose_to_conv2d import conv2d_transpose_to_conv2d

RNG = np.random.default_rng(3)


def _module(weight, **attrs):
    x = relay.var("x", shape=(2, 6, 5, 7))
    return infer_type(IRModule.from_expr(Function([x], relay.nn.conv2d_transpose(x, weight, **attrs))))


@pytest.mark.parametrize(
    ("shape", "attrs"),
    [
        ((6, 4, 3, 3), {}),
        ((6, 4, 4, 2), {"strides": (2, 3), "padding": (1, 0)}),
        ((6, 2, 3, 3), {"strides": (2, 2), "padding": (1, 1), "groups": 3, "output_padding": (1, 0)}),
        ((6, 4, 3, 3), {"strides": (1, 2), "padding": (0, 1, 2, 2), "dilation": (2, 1)}),
        ((6, 5, 1, 1), {"strides": (2, 2)}),
    ],
)
def test_the_numbers_stay(shape, attrs):
    mod = _module(relay.const(RNG.standard_normal(shape).astype("float32")), **attrs)
    after = conv2d_transpose_to_conv2d(mod)
    assert set(op_names(after)) <= {"nn.conv2d", "nn.dilate"} and "nn.conv2d" in op_names(after)
    x = RNG.standard_normal((2, 6, 5, 7)).astype("float32")
    np.testing.assert_allclose(interpret(after, [x])[0], interpret(mod, [x])[0], rtol=1e-5, atol=1e-5)


def test_what_cuts_off_more_than_its_window_or_has_weights_of_a_run_stays():
    wide = _module(relay.const(np.ones((6, 4, 1, 1), "float32")), padding=(1, 1))
    assert op_names(conv2d_transpose_to_conv2d(wide)) == ["nn.conv2d_transpose"]
    x, w = relay.var("x", shape=(1, 6, 5, 5)), relay.var("w", shape=(6, 4, 3, 3))
    fed = infer_type(IRModule.from_expr(Function([x, w], relay.nn.conv2d_transpose(x, w))))
    assert op_names(conv2d_transpose_to_conv2d(fed)) == ["nn.conv2d_transpose"]
