"""Recurrent weights are packed once, and the values stay, also when compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import assert_same, feed, module, weights
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.layout.pack_recurrent import pack_recurrent
from tilewright.target import Target

TARGET = Target("llvm -mcpu=znver4")


def _lstm(hidden: int, weight: relay.Expr) -> relay.Expr:
    gates = relay.var("gates", shape=(4, 2, 4 * hidden))
    states = [relay.var(name, shape=(1, 2, hidden)) for name in ("h", "c")]
    return relay.nn.lstm(gates, weight, *states)


@pytest.mark.parametrize(("hidden", "shape"), [(32, (1, 2, 32, 4, 16)), (21, (1, 2, 21, 4, 16))])
def test_constant_weights_are_packed(hidden: int, shape: tuple[int, ...]) -> None:
    before = module(_lstm(hidden, weights(1, 4 * hidden, hidden)))
    after = pack_recurrent(before, backend_of(TARGET))
    (layer,) = calls(after["main"].body)
    assert layer.args[1].data.shape == shape
    assert_same(before, after)
    assert pack_recurrent(after, backend_of(TARGET))["main"].body is after["main"].body


@pytest.mark.parametrize(
    ("target", "codes"), [(TARGET, "uint8"), (Target("llvm -mtriple=aarch64 -mattr=+dotprod"), "int8")]
)
def test_weights_of_bytes_are_packed_for_dot_products(target: Target, codes: str) -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-127, 128, (1, 84, 21)).astype("int8")
    numbers = {"scale": weights(1, 84), "columns": relay.const(weight.sum(2, dtype="int32"))}
    states = [relay.var(name, shape=(1, 2, 21)) for name in ("h", "c")]
    gates = relay.var("gates", shape=(4, 2, 84))
    before = module(relay.nn.lstm(gates, relay.const(weight), *states, **numbers))
    after = pack_recurrent(before, backend_of(target))
    (layer,) = calls(after["main"].body)
    assert layer.args[1].data.shape[2:4] == (6, 4) and layer.args[1].data.shape[5] == 4
    assert layer.attrs["codes"] == codes
    assert_same(before, after)


@pytest.mark.parametrize("late", [True, False])
def test_a_first_step_from_zeros_needs_no_product(late: bool) -> None:
    gates, zeros = relay.var("gates", shape=(4, 2, 2 * 63)), relay.const(np.zeros((2, 2, 21), "float32"))
    layer = relay.nn.gru(
        gates, weights(2, 63, 21), zeros, weights(2, 21) if late else None,
        direction="bidirectional", linear_before_reset=late,
    )  # fmt: skip
    before = module(layer)
    after = pack_recurrent(before, backend_of(TARGET))
    assert after["main"].body.attrs["zero_state"] and not before["main"].body.attrs["zero_state"]
    assert_same(before, after)
    (value,) = feed(before)
    got = tw.compile(after, cache=False).run({"gates": value})
    for a, b in zip(got, relay.interpret(before, [value]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_weights_fed_at_run_time_stay() -> None:
    before = module(_lstm(16, relay.var("w", shape=(1, 64, 16))))
    assert pack_recurrent(before, backend_of(TARGET))["main"].body is before["main"].body


@pytest.mark.parametrize("constant", [True, False])
def test_packed_weights_keep_the_values_when_compiled(constant: bool) -> None:
    weight = weights(1, 84, 21) if constant else relay.var("w", shape=(1, 84, 21))
    mod = module(_lstm(21, weight))
    inputs = feed(mod)
    named = {param.name: value for param, value in zip(mod["main"].params, inputs, strict=True)}
    for got, want in zip(tw.compile(mod, cache=False).run(named), relay.interpret(mod, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
