"""Calls in compiled code: math, bit operations, reductions of a vector, guards, functions of the C library."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tilewright.backend import build
from tilewright.codegen.llvm import emit
from tilewright.errors import UnsupportedError
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Ramp, StringImm, Var
from tilewright.tir.stmt import BufferStore, Evaluate, PrimFunc, seq

LANES = [1, 16]
MATH = {
    "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "fabs": np.abs,
    "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes="d"),
}  # fmt: skip


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", MATH)
def test_math_calls_agree_with_numpy_in_float64(elementwise, name, dtype, lanes):
    x = np.array([0.5, 1.5, 2.5, 2.0, 0.25, 3.75, 1e-2, 7.5] * 4).astype(DType(dtype).numpy)
    if name in ("floor", "ceil", "trunc", "round", "fabs", "tanh", "erf"):
        x[::2] = -x[::2]
    got = elementwise(lambda a: Call(a.dtype, name, (a,)), x, lanes=lanes)
    rtol = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-7, "float64": 1e-15}[dtype]
    np.testing.assert_allclose(got.astype("f8"), MATH[name](x.astype("f8")), rtol=rtol)


@pytest.mark.parametrize("lanes", LANES)
def test_fused_multiply_add_and_pow(elementwise, lanes):
    x, y, z = (np.random.default_rng(k).random(32, "f4") + 0.5 for k in range(3))
    got = elementwise(lambda a, b, c: Call(a.dtype, "fma", (a, b, c)), x, y, z, lanes=lanes)
    exact = (x.astype("f8") * y + z).astype("f4")
    np.testing.assert_allclose(got, exact, rtol=0 if Target("cpu").has_fma else 1e-6)
    got = elementwise(lambda a, b: Call(a.dtype, "pow", (a, b)), x, y, lanes=lanes)
    np.testing.assert_allclose(got, x.astype("f8") ** y, rtol=1e-6)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_isnan_isinf_and_isfinite_classify_special_values(elementwise, dtype, lanes):
    x = np.array([0, 1, np.inf, -np.inf, np.nan, -1, 1e30, -0.0] * 2).astype(DType(dtype).numpy)
    for name, reference in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
        got = elementwise(lambda a, n=name: Call(DType("bool").with_lanes(a.dtype.lanes), n, (a,)), x, lanes=lanes)
        np.testing.assert_array_equal(got, reference(x.astype("f8")))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint32", "int64", "uint16"])
def test_bit_operations_and_counts_are_exact(elementwise, dtype, lanes):
    bits = DType(dtype).bits
    low, high = DType(dtype).limits()
    x = np.random.default_rng(0).integers(low, high, 32, dtype=dtype, endpoint=True)
    by = (np.arange(32) % bits).astype(dtype)

    def run(name, *arrays):
        return elementwise(lambda *a: Call(a[0].dtype, name, a), *arrays, lanes=lanes)

    np.testing.assert_array_equal(run("shift_left", x, by), x << by)
    np.testing.assert_array_equal(run("shift_right", x, by), x >> by)
    np.testing.assert_array_equal(run("bitwise_and", x, by), x & by)
    np.testing.assert_array_equal(run("bitwise_or", x, by), x | by)
    np.testing.assert_array_equal(run("bitwise_xor", x, by), x ^ by)
    np.testing.assert_array_equal(run("bitwise_not", x), ~x)
    patterns = [int(v) & ((1 << bits) - 1) for v in x]
    np.testing.assert_array_equal(run("popcount", x), [p.bit_count() for p in patterns])
    np.testing.assert_array_equal(run("clz", x), [bits - p.bit_length() for p in patterns])


def test_reinterpret_keeps_the_bits(elementwise):
    x = np.random.default_rng(0).standard_normal(16).astype("f4")
    np.testing.assert_array_equal(elementwise(lambda a: op.reinterpret("int32", a), x, lanes=16), x.view("i4"))
    half = x.astype("f2")
    np.testing.assert_array_equal(elementwise(lambda a: op.reinterpret("uint16", a), half), half.view("u2"))


@pytest.mark.parametrize("lanes", [2, 3, 7, 8, 16, 64])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_reductions_of_a_vector(dtype, lanes):
    x, y = Buffer("x", (lanes,), dtype), Buffer("y", (3,), dtype)
    a, b = np.arange(1, lanes + 1).astype(dtype)[::-1].copy(), np.zeros(3, dtype)
    vector = BufferLoad(x, (Ramp(op.const(0), op.const(1), lanes),))
    names = ("vector_reduce_add", "vector_reduce_max", "vector_reduce_min")
    body = seq(*[BufferStore(y, Call(dtype, name, (vector,)), (op.const(k),)) for k, name in enumerate(names)])
    build(PrimFunc("f", [x, y], body), threads=1)["f"](a, b)
    np.testing.assert_array_equal(b, [a.sum(), a.max(), a.min()])


def test_a_guard_keeps_the_load_from_happening(loop):
    """The load would fault: its index is far outside the buffer where the guard is false."""
    x, y, i = Buffer("x", (16,)), Buffer("y", (32,)), Var("i")
    far = op.const(1 << 40, "int64") * (op.cast("int64", i) - 8)
    guarded = op.if_then_else(i < 9, BufferLoad(x, (op.select(i < 8, op.cast("int64", i), far),)), op.const(-1.0))
    a, b = np.arange(16, dtype="f4"), np.zeros(32, "f4")
    build(PrimFunc("f", [x, y], loop(i, 32, BufferStore(y, guarded * 2.0 + guarded, (i,)))), threads=1)["f"](a, b)
    np.testing.assert_array_equal(
        b, np.where(np.arange(32) < 8, 3.0 * np.arange(32), np.where(np.arange(32) == 8, 0, -3))
    )


def test_nested_guards_of_vectors(loop):
    x, y, i = Buffer("x", (16,)), Buffer("y", (64,)), Var("i")
    vector = BufferLoad(x, (Ramp(i * 4, op.const(1), 4),))
    inner = op.if_then_else(i < 4, vector, op.const(5.0, "float32x4"))
    value = op.if_then_else(op.all(i < 8, i > 0), inner + inner, op.const(0.0, "float32x4"))
    a, b = np.arange(16, dtype="f4"), np.ones(64, "f4")
    build(PrimFunc("f", [x, y], loop(i, 16, BufferStore(y, value, (Ramp(i * 4, op.const(1), 4),)))), threads=1)["f"](
        a, b
    )
    expected = np.zeros((16, 4), "f4")
    expected[1:4], expected[4:8] = 2 * a[4:].reshape(3, 4), 10
    np.testing.assert_array_equal(b.reshape(16, 4), expected)


@pytest.mark.parametrize("lanes", LANES)
def test_functions_of_the_c_library(elementwise, lanes):
    x, y = np.arange(1, 17, dtype="f8"), np.arange(16, dtype="f8") / 4
    got = elementwise(lambda a, b: Call(a.dtype, "call_extern", (StringImm("hypot"), a, b)), x, y, lanes=lanes)
    np.testing.assert_allclose(got, np.hypot(x, y), rtol=1e-15)


def test_prefetch_and_likely_are_hints(loop):
    x, y, i = Buffer("x", (64,)), Buffer("y", (64,)), Var("i")
    ahead = Call("int32", "prefetch", (BufferLoad(x, (i + 64,)), op.const(0), op.const(3)))
    value = op.if_then_else(op.likely(i < 32), BufferLoad(x, (i,)), op.const(0.0))
    func = PrimFunc("f", [x, y], loop(i, 64, seq(Evaluate(ahead), BufferStore(y, value, (i,)))))
    assert emit([func], Target.host()).count("call void @llvm.prefetch") == 1
    a, b = np.ones(64, "f4"), np.zeros(64, "f4")
    build(func, threads=1)["f"](a, b)
    assert b.sum() == 32


def test_an_unknown_call_is_refused():
    y = Buffer("y", (1,))
    func = PrimFunc("f", [y], BufferStore(y, Call("float32", "frobnicate", (op.const(1.0),)), (op.const(0),)))
    with pytest.raises(UnsupportedError, match="frobnicate"):
        emit([func], Target.host())
