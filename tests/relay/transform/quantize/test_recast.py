"""Operators in another element type, with casts around them."""

from __future__ import annotations

import numpy as np

from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.relay.transform.quantize.recast import recast


def _two_layers() -> relay.IRModule:
    x, w, v = relay.var("x", shape=(1, 3, 5, 5)), relay.var("w", shape=(4, 3, 3, 3)), relay.var("v", shape=(2, 4, 1, 1))
    return module(relay.nn.conv2d(relay.nn.relu(relay.nn.conv2d(x, w)), v))


def test_casts_before_and_behind() -> None:
    after = recast(_two_layers(), "int8", "int32")
    assert op_names(after) == ["cast", "cast", "nn.conv2d", "cast", "nn.relu", "cast", "cast", "nn.conv2d", "cast"]
    assert after["main"].checked_type == _two_layers()["main"].checked_type
    rng = np.random.default_rng(0)
    whole = [rng.integers(-1, 2, shape).astype("float32") for shape in ((1, 3, 5, 5), (4, 3, 3, 3), (2, 4, 1, 1))]
    np.testing.assert_array_equal(relay.interpret(after, whole)[0], relay.interpret(_two_layers(), whole)[0])


def test_layers_and_operators_can_be_chosen() -> None:
    assert op_names(recast(_two_layers(), "int8", "int32", skip_layers=[-1])).count("cast") == 3
    assert op_names(recast(_two_layers(), "int8", "int32", skip_layers=[0, 1])) == op_names(_two_layers())
    x = relay.var("x", shape=(4,))
    mod = module(relay.add(relay.exp(x), x))
    after = recast(mod, "float64", "float64", ops=["exp"])
    assert op_names(after) == ["cast", "exp", "cast", "add"]
    value = np.linspace(-1, 1, 4, dtype="float32")
    np.testing.assert_allclose(relay.interpret(after, [value])[0], np.exp(value) + value, rtol=1e-6)
