"""Halves are widened once and rounded once; what must see the rounded values does."""

from __future__ import annotations

from typing import Any

import ml_dtypes
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
    """So does the sum, which is cast: what is wider than a half shows no more than a half has."""
    x = relay.var("x", shape=(4,))
    body = relay.cast(relay.add(relay.cast(x, "float16"), relay.const(1.0, "float16")), "float32")
    mod = compute_in_float32(module(body))
    values = np.float32([1.0001, 2.0003, 1e-5, 60001])
    (got,) = tw.compile(mod, cache=False).run({"x": values})
    np.testing.assert_array_equal(got, (values.astype("float16") + np.float16(1)).astype("float32"))


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


def _all_values(half: str) -> Any:
    return np.arange(1 << 16, dtype=np.uint16).view(_dtype(half))


def _dtype(half: str) -> np.dtype[Any]:
    return np.dtype(half if half == "float16" else ml_dtypes.bfloat16)


def _run(body: relay.Expr, x: Any, exact_rounding: bool = False) -> Any:
    (got,) = tw.compile(module(body), cache=False, exact_rounding=exact_rounding).run({"x": x})
    return np.asarray(got)


#: What sees the rounded values of the function before it, and what NumPy makes of these.
_SEEING: dict[str, tuple[Any, Any]] = {
    "isinf": (relay.isinf, np.isinf),
    "isnan": (relay.isnan, np.isnan),
    "float32": (lambda x: relay.cast(x, "float32"), lambda h: h.astype(np.float32)),
    "float64": (lambda x: relay.cast(x, "float64"), lambda h: h.astype(np.float64)),
    "float8": (
        lambda x: relay.cast(relay.cast(x, "float8_e5m2"), "float32"),
        lambda h: h.astype(ml_dtypes.float8_e5m2).astype(np.float32),
    ),
    "equal": (lambda x: relay.equal(x, relay.divide(x, x)), lambda h: h == h.dtype.type(1)),
}


@HALVES
@pytest.mark.parametrize("seeing", _SEEING)
def test_casts_and_tests_see_rounded_values_of_every_argument(half: str, seeing: str) -> None:
    """exp in a kernel with what follows gives what exp and that give one after the other, for all 65,536 values."""
    x = relay.var("x", shape=(1 << 16,), dtype=half)
    follow, reference = _SEEING[seeing]
    values = _all_values(half)
    with np.errstate(all="ignore"):
        rounded = _run(relay.exp(x), values).view(_dtype(half))
        expected = reference(rounded)
    got = _run(follow(relay.exp(x)), values)
    np.testing.assert_array_equal(got, expected)
    assert seeing not in ("isinf", "equal") or (expected.any() and not expected.all())


def test_orders_are_those_of_rounded_values() -> None:
    """Of equal halves the first counts as the largest, however they differed before they were rounded."""
    x = relay.var("x", shape=(3,), dtype="float16")
    values, scale = np.float16([2048, 2048, 1]), np.float16([1, 1.001, 1])
    scaled = relay.multiply(relay.add(x, relay.const(0.25, "float16")), relay.const(scale))
    rounded = np.float16((values.astype(np.float32) + 0.25) * scale)
    got = _run(relay.topk(scaled, k=3, ret_type="indices"), values)
    np.testing.assert_array_equal(got, np.argsort(-rounded, kind="stable"))


@HALVES
def test_exact_rounding_rounds_after_each_operator(half: str) -> None:
    """x·c + c, divided by c, less x: all 65,536 values, bit for bit as one step after the other."""
    x = relay.var("x", shape=(1 << 16,), dtype=half)
    values, c = _all_values(half), np.array(1.7).astype(_dtype(half))
    const = relay.const(float(c), half)
    body = relay.subtract(relay.divide(relay.add(relay.multiply(x, const), const), const), x)
    with np.errstate(all="ignore"):
        expected = (values * c + c) / c - values
    assert expected.dtype == _dtype(half)
    got = _run(body, values, exact_rounding=True).view(_dtype(half))
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))
    fused = _run(body, values).view(_dtype(half)).astype(np.float32)
    assert not np.array_equal(fused, expected.astype(np.float32), equal_nan=True), "the option makes no difference"


#: Operators whose float32 result, rounded, is the exact one rounded.
_STEPS: dict[str, tuple[Any, Any, int]] = {
    "add": (relay.add, np.add, 2),
    "subtract": (relay.subtract, np.subtract, 2),
    "multiply": (relay.multiply, np.multiply, 2),
    "maximum": (relay.maximum, np.maximum, 2),
    "abs": (relay.abs, np.abs, 1),
    "negative": (relay.negative, np.negative, 1),
    "floor": (relay.floor, np.floor, 1),
    "relu": (relay.nn.relu, lambda x: np.maximum(x, x.dtype.type(0)), 1),
}


@HALVES
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sample(4)
def test_random_graphs_rounded_step_by_step(half: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [(3 * rng.standard_normal((5, 17))).astype(_dtype(half)) for _ in range(2)]
    exprs: list[relay.Expr] = [relay.var(name, shape=(5, 17), dtype=half) for name in "xy"]
    inputs, known = list(exprs), list(arrays)
    for _ in range(14):
        build, reference, count = _STEPS[str(rng.choice(list(_STEPS)))]
        taken = [int(i) for i in rng.integers(max(0, len(exprs) - 4), len(exprs), count)]
        exprs.append(build(*[exprs[i] for i in taken]))
        with np.errstate(all="ignore"):
            known.append(np.asarray(reference(*[known[i] for i in taken])).astype(_dtype(half)))
    body = relay.Tuple(exprs[-3:] + inputs)
    outputs = tw.compile(module(body), cache=False, exact_rounding=True).run(dict(zip("xy", arrays, strict=True)))
    for got, expected in zip(outputs[:3], known[-3:], strict=True):
        narrow = np.asarray(got).view(_dtype(half)).astype(np.float32)
        np.testing.assert_array_equal(narrow, expected.astype(np.float32), err_msg=f"seed {seed}")


def test_what_one_operator_of_the_source_becomes_is_rounded_once() -> None:
    """Two calls with one span are one operator of the model; what it hands to the next is rounded."""
    x = relay.var("x", shape=(4,), dtype="float16")
    first = Call(relay.exp(x).op, [x], relay.exp(x).attrs, "gelu")
    second = Call(relay.negative(first).op, [first], relay.negative(first).attrs, "gelu")
    third = Call(relay.abs(second).op, [second], relay.abs(second).attrs, "abs")
    mod = compute_in_float32(module(third), exact=True)
    assert _names(mod) == ["cast", "exp", "negative", "cast", "cast", "abs", "cast"]
