"""Halves are widened once and rounded once; what must see the rounded values does."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import module
from tilewright import relay
from tilewright.relay.ir.expr import Call, Constant
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.quantize.compute_in_float32 import compute_in_float32

RNG = np.random.default_rng(7)
HALVES = pytest.mark.parametrize("half", ["float16", "bfloat16"])


def _half(*shape: int, dtype: str = "float16") -> relay.Expr:
    return relay.const(RNG.standard_normal(shape).astype("float32"), dtype)


def _names(mod: relay.IRModule) -> list[str]:
    return [call.op.name for call in calls(mod["main"].body)]


def _dtypes(mod: relay.IRModule, name: str) -> list[str]:
    return [str(tensor_type_of(call).dtype) for call in calls(mod["main"].body) if call.op.name == name]


@HALVES
def test_one_cast_in_front_and_one_behind(half: str) -> None:
    x = relay.var("x", shape=(2, 8), dtype=half)
    y = relay.nn.relu(relay.nn.dense(x, _half(4, 8, dtype=half)))
    mod = compute_in_float32(module(relay.nn.dense(y, _half(3, 4, dtype=half))))
    assert _names(mod) == ["cast", "nn.dense", "nn.relu", "nn.dense", "cast"]
    assert set(_dtypes(mod, "nn.dense")) == {"float32"}
    assert type_of(mod["main"].body) == type_of(module(relay.nn.dense(y, _half(3, 4, dtype=half)))["main"].body)


def test_large_weights_are_converted_at_once() -> None:
    x = relay.var("x", shape=(1, 1024), dtype="float16")
    mod = compute_in_float32(module(relay.nn.dense(x, relay.transpose(_half(1024, 1024), axes=(1, 0)))))
    (dense,) = [call for call in calls(mod["main"].body) if call.op.name == "nn.dense"]
    weight = dense.args[1]
    assert isinstance(weight, Call) and isinstance(weight.args[0], Constant)
    assert tensor_type_of(weight.args[0]).dtype == "float32"


def test_a_sum_beyond_the_range_of_halves_is_found() -> None:
    x = relay.var("x", shape=(64,), dtype="float16")
    body = relay.sqrt(relay.sum(relay.multiply(x, x), axis=[0]))
    values = np.full(64, 300, "float16")
    (got,) = tw.compile(module(body), cache=False).run({"x": values})
    assert got.dtype == np.float16 and got == np.float16(2400)


def test_what_the_program_rounds_stays_rounded() -> None:
    x = relay.var("x", shape=(4,))
    body = relay.cast(relay.add(relay.cast(x, "float16"), relay.const(1.0, "float16")), "float32")
    mod = compute_in_float32(module(body))
    values = np.float32([1.0001, 2.0003, 1e-5, 60001])
    (got,) = tw.compile(mod, cache=False).run({"x": values})
    np.testing.assert_array_equal(got, values.astype("float16").astype("float32") + 1)


def test_comparisons_and_integers_see_rounded_values() -> None:
    x = relay.var("x", shape=(3,), dtype="float16")
    tripled = relay.multiply(x, relay.const(1 / 3, "float16"))
    body = relay.Tuple([relay.equal(tripled, relay.const(1.0, "float16")), relay.cast(tripled, "int32")])
    values = np.float16([3, 2999, 6])
    expected = values * np.float16(1 / 3)
    same, whole = tw.compile(module(body), cache=False).run({"x": values})
    np.testing.assert_array_equal(same, expected == 1)
    np.testing.assert_array_equal(whole, expected.astype("int32"))


def test_tables_are_looked_up_as_they_are() -> None:
    ids = relay.var("ids", shape=(5,), dtype="int32")
    rows = relay.take(_half(100, 16), ids, axis=0)
    mod = compute_in_float32(module(relay.tanh(relay.reshape(rows, (80,)))))
    assert _names(mod) == ["take", "reshape", "cast", "tanh", "cast"]


def test_parts_and_joined_tensors() -> None:
    x = relay.var("x", shape=(2, 6), dtype="float16")
    parts = relay.split(relay.exp(x), 3, axis=1)
    joined = relay.concatenate(relay.Tuple([parts[2], relay.negative(parts[0]), x]), axis=1)
    mod = module(relay.Tuple([joined, parts[1]]))
    assert type_of(compute_in_float32(mod)["main"].body) == type_of(mod["main"].body)
    values = RNG.standard_normal((2, 6)).astype("float16")
    wide = np.exp(values.astype("float32"))
    got = tw.compile(mod, cache=False).run({"x": values})
    expected = np.concatenate([wide[:, 4:], -wide[:, :2], values], axis=1)
    np.testing.assert_allclose(got[0], expected.astype("float16"), rtol=1e-3)
    np.testing.assert_allclose(got[1], wide[:, 2:4].astype("float16"), rtol=1e-3)


def test_a_module_without_halves_is_left_alone() -> None:
    before = module(relay.nn.relu(relay.var("x", shape=(2, 8))))
    assert compute_in_float32(before)["main"].body is before["main"].body
