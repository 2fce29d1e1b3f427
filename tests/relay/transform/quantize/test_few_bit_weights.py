"""Dense layers of bytes by ternary weights, and others of few values, are the same numbers from planes of bits."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay import op
from tilewright.relay.op import nn
from tilewright.relay.transform.quantize.dot_products import dot_products
from tilewright.target import Target

ZEN4 = Target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4")


def _dense(low: int, high: int, dtype: str, units: int = 1024) -> tuple[relay.Expr, np.ndarray]:
    rng = np.random.default_rng(high)
    weight = rng.integers(low, high + 1, (units, 500)).astype("int8")
    weight[0, :2] = low, high
    x = relay.var("x", shape=(1, 500), dtype=dtype)
    centred = op.subtract(op.cast(x, "int32"), relay.const(np.int32(3)))
    data = rng.integers(*((0, 256) if dtype == "uint8" else (-128, 128)), (1, 500)).astype(dtype)
    return nn.dense(centred, op.cast(relay.const(weight), "int32")), data


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (0, 1), (-2, 1)])
def test_one_row_by_weights_of_few_values(low: int, high: int, dtype: str) -> None:
    expr, data = _dense(low, high, dtype)
    after = dot_products(module(expr), backend_of(ZEN4))
    assert "nn.contrib_bitserial_dense" in op_names(after)
    (expected,) = relay.interpret(module(expr), [data])
    np.testing.assert_array_equal(relay.interpret(after, [data])[0], expected)
    np.testing.assert_array_equal(tw.compile(module(expr))(data), expected)


@pytest.mark.parametrize(("low", "high"), [(-9, 9), (-128, 127)])
def test_weights_of_many_values_stay_bytes(low: int, high: int) -> None:
    expr, _ = _dense(low, high, "uint8", units=64)
    assert "nn.contrib_bitserial_dense" not in op_names(dot_products(module(expr), backend_of(ZEN4)))
