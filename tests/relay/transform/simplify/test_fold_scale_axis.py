"""Scales folded into weights."""

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module, op_names, rand, weights
from tilewright import relay
from tilewright.relay.transform.simplify.fold_scale_axis import fold_scale_axis


def _conv2d(x: relay.Expr) -> relay.Expr:
    return relay.nn.conv2d(x, weights(6, 2, 3, 3), groups=2)


def _transposed(x: relay.Expr) -> relay.Expr:
    return relay.nn.conv2d_transpose(x, weights(4, 3, 2, 2), strides=(2, 2), groups=2)


@pytest.mark.parametrize("anchor", [_conv2d, _transposed])
@pytest.mark.parametrize("bias", [False, True])
def test_scale_moves_into_the_weights_of_convolutions(anchor: object, bias: bool) -> None:
    x = relay.var("x", shape=(1, 4, 6, 6))
    y = anchor(x)  # type: ignore[operator]
    if bias:
        y = relay.add(weights(6, 1, 1, seed=5), y)
    mod = module(relay.add(relay.multiply(y, weights(6, 1, 1, seed=6)), weights(6, 1, 1, seed=7)))
    after = fold_scale_axis(mod)
    assert "multiply" not in op_names(after)
    assert_same(mod, relay.transform.infer_type(after))


def test_scale_moves_into_dense_weights_and_scales_combine() -> None:
    x = relay.var("x", shape=(2, 5))
    y = relay.multiply(relay.nn.dense(x, weights(3, 5)), weights(3))
    mod = module(relay.multiply(relay.const(0.25), y))
    after = fold_scale_axis(mod)
    assert op_names(after) == ["nn.dense"]
    assert_same(mod, relay.transform.infer_type(after))


def test_what_others_read_keeps_its_scale() -> None:
    y = _conv2d(relay.var("x", shape=(1, 4, 6, 6)))
    mod = module(relay.add(y, relay.multiply(y, weights(6, 1, 1))))
    assert fold_scale_axis(mod) is mod


@pytest.mark.parametrize("factor", [rand(4, 4), rand(1, 6, 1, 4), np.float32(2) + rand(2, 1, 1, 1)])
def test_other_factors_stay(factor: np.ndarray) -> None:
    mod = module(relay.multiply(_conv2d(relay.var("x", shape=(1, 4, 6, 6))), relay.const(factor)))
    assert "multiply" in op_names(fold_scale_axis(mod))


def test_weights_that_are_fed_stay() -> None:
    w = relay.var("w", shape=(3, 5))
    mod = module(relay.multiply(relay.nn.dense(relay.var("x", shape=(2, 5)), w), 2.0))
    assert fold_scale_axis(mod) is mod
