"""Batch norm, dropout, bias_add and prelu spelled out."""

import numpy as np
import pytest

from tests.relay.helpers import assert_same, module, op_names, rand, weights
from tilewright import relay
from tilewright.relay.transform.simplify.simplify_inference import simplify_inference


@pytest.mark.parametrize("axis,shape", [(1, (2, 3, 4, 4)), (-1, (2, 4, 3)), (1, (5, 3))])
def test_batch_norm_becomes_a_scale_and_a_shift(axis: int, shape: tuple[int, ...]) -> None:
    x = relay.var("x", shape=shape)
    var = relay.const(np.abs(rand(3)) + np.float32(0.1))
    mod = module(relay.nn.batch_norm(x, weights(3), weights(3, seed=1), weights(3, seed=2), var, axis=axis)[0])
    after = simplify_inference(mod)
    assert op_names(after) == ["multiply", "add"]
    assert_same(mod, relay.transform.infer_type(after))


def test_batch_norm_with_fed_parameters_keeps_its_arithmetic() -> None:
    args = [relay.var(name, shape=(2,)) for name in ("gamma", "beta", "mean")]
    var = relay.multiply(args[0], args[0])
    mod = module(relay.nn.batch_norm(relay.var("x", shape=(1, 2)), *args, var)[0])
    assert_same(mod, relay.transform.infer_type(simplify_inference(mod)))


@pytest.mark.parametrize("alpha", [rand(3), rand(1)])
def test_bias_add_and_prelu(alpha: np.ndarray) -> None:
    x = relay.var("x", shape=(2, 3, 4))
    mod = module(relay.nn.prelu(relay.nn.bias_add(relay.nn.dropout(x), weights(3)), relay.const(alpha)))
    after = simplify_inference(mod)
    assert not {"nn.prelu", "nn.bias_add", "nn.dropout"} & set(op_names(after))
    assert_same(mod, relay.transform.infer_type(after))
