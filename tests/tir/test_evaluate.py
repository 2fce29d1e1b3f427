"""The reference executor against NumPy, and its own checks."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright import te, tir
from tilewright.errors import InputError, InternalError
from tilewright.tir.evaluate import evaluate, interpret
from tilewright.tir.intrinsics import INTRINSICS
from tilewright.tir.visitor import collect_vars

X, Y = tir.Var("x"), tir.Var("y")
F, G = tir.Var("f", "float32"), tir.Var("g", "float32")


@pytest.mark.parametrize(
    ("expr", "value"),
    [
        (X // Y, -3),
        (X % Y, 1),
        (tir.truncdiv(X, Y), -2),
        (tir.truncmod(X, Y), -1),
        (X + tir.const(2**31 - 1), 2**31 - 1 - 5),
        (X - tir.const(2**31 - 1), -(2**31) - 4 + 2**32),
        (tir.cast("int8", tir.const(300) + X - X), 44),
        (tir.cast("uint8", X), 251),
        (tir.cast("int32", tir.Var("f", "float32") * 0.0 + tir.const(-2.7)), -2),
        (tir.Call("int32", "shift_right", (X, tir.const(1))), -3),
        (tir.Call("int32", "popcount", (X,)), 31),
        (tir.Call("uint8", "clz", (tir.const(3, "uint8"),)), 6),
        (tir.Let(X, tir.const(3), X * X), 9),
        (tir.if_then_else(tir.eq(X, -5), Y, tir.truncdiv(Y, Y - 2)), 2),
        (tir.reinterpret("int32", tir.const(1.0) + F * 0.0), 0x3F800000),
        (tir.Ramp(X, tir.const(2), 3), [-5, -3, -1]),
        (tir.Shuffle((tir.Ramp(X, tir.const(1), 4), tir.Broadcast(Y, 2)), (3, 4, 0)), [-2, 2, -5]),
        (tir.Call("int32", "vector_reduce_max", (tir.Ramp(X, tir.const(1), 4),)), -2),
        (tir.select(tir.Ramp(X, tir.const(2), 4) < 0, tir.Broadcast(Y, 4), tir.Ramp(Y, Y, 4)), [2, 2, 2, 8]),
    ],
)
def test_expressions_evaluate_as_in_numpy(expr: tir.Expr, value: Any) -> None:
    env = {X: -5, Y: 2, **{v: 0.5 for v in collect_vars(expr) if v.dtype.is_float}}
    np.testing.assert_array_equal(evaluate(expr, env), value)


def test_floats_are_rounded_to_their_type() -> None:
    assert evaluate(F + G, {F: np.float32(1e8), G: np.float32(1)}) == np.float32(1e8)
    half = tir.Var("h", "float16")
    assert evaluate(half * half, {half: 300.0}) == np.inf
    brain = tir.Var("b", "bfloat16")
    assert evaluate(brain + brain, {brain: 1.01}) == ml_dtypes.bfloat16(1.01) * ml_dtypes.bfloat16(2)


def test_min_and_max_of_nan_are_nan() -> None:
    nan = float("nan")
    for node in (tir.minimum(F, G), tir.maximum(F, G)):
        assert np.isnan(evaluate(node, {F: nan, G: 1.0})) and np.isnan(evaluate(node, {F: 1.0, G: nan}))
    assert np.isnan(tir.maximum(tir.const(nan), tir.const(1.0)).value)


def test_integers_divide_by_zero_to_zero_and_wrap_around() -> None:
    low = -(2**31)
    for node in (tir.truncdiv(X, Y), tir.truncmod(X, Y), tir.FloorDiv(X, Y), tir.FloorMod(X, Y)):
        assert evaluate(node, {X: 7, Y: 0}) == 0
        assert evaluate(node, {X: low, Y: -1}) == (low if isinstance(node, (tir.Div, tir.FloorDiv)) else 0)
    assert tir.floordiv(tir.const(5), tir.const(0)).value == 0


@pytest.mark.parametrize(
    "name", [n for n, i in INTRINSICS.items() if i.arity in (1, 2) and i.rule.__name__ == "_like_floats"]
)
def test_every_math_function_has_a_reference(name: str) -> None:
    arguments = [F, G][: INTRINSICS[name].arity]
    value = evaluate(tir.Call("float32", name, arguments), {F: 0.5, G: 0.25})
    assert isinstance(value, np.float32)


def matmul_program() -> tuple[Any, list[Any]]:
    a, b = te.placeholder((6, 9), name="A"), te.placeholder((9, 5), name="B")
    k = te.reduce_axis((0, 9), "k")
    c = te.compute((6, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = te.create_schedule(c.op)
    i, j = c.op.axis
    outer, _ = schedule[c].split(i, factor=4)
    schedule[c].parallel(outer)
    schedule[c].unroll(j)
    return schedule, [a, b, c]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_a_function_at_every_stage(workers: int) -> None:
    schedule, args = matmul_program()
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 9), np.float32), rng.random((9, 5), np.float32)
    for stage, func in te.lower_stages(schedule, args):
        c = np.full((6, 5), np.nan, np.float32)
        interpret(func, a, b, c, workers=workers if func.attrs.get("spmd") else 1)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, err_msg=stage)


def copy_program(shift: int) -> tir.PrimFunc:
    i = tir.Var("i")
    a, b = tir.Buffer("A", (8,)), tir.Buffer("B", (8,))
    store = tir.BufferStore(b, tir.BufferLoad(a, (i + shift,)), (i,))
    return tir.PrimFunc("copy", [a, b], tir.For(i, tir.const(0), tir.const(8), tir.ForKind.SERIAL, store))


def test_access_out_of_bounds_is_reported() -> None:
    a, b = np.zeros(8, np.float32), np.zeros(8, np.float32)
    interpret(copy_program(0), a, b)
    with pytest.raises(InternalError, match=r"index 8 is outside \[0, 8\) in A\[i \+ 1\]"):
        interpret(copy_program(1), a, b)
    with pytest.raises(InternalError, match="index -1 is outside"):
        interpret(copy_program(-1), a, b)


def test_arguments_are_checked() -> None:
    good = np.zeros(8, np.float32)
    with pytest.raises(InputError, match="takes 2 arguments"):
        interpret(copy_program(0), good)
    for bad in (np.zeros(8), np.zeros(7, np.float32), np.zeros((8, 2), np.float32)[:, 0]):
        with pytest.raises(InputError, match="A of copy is float32"):
            interpret(copy_program(0), bad, good)


def test_new_memory_is_poison() -> None:
    out = tir.Buffer("out", (1,))
    temporary = tir.Buffer("T", (1,), scope="local")
    zero = (tir.const(0),)
    body = tir.Allocate(temporary, tir.BufferStore(out, tir.BufferLoad(temporary, zero), zero))
    value = np.zeros(1, np.float32)
    interpret(tir.PrimFunc("f", [out], body), value)
    assert np.isnan(value[0])


def test_views_barriers_and_assertions() -> None:
    workspace, out, n = tir.Buffer("workspace", (64,), "uint8"), tir.Buffer("out", (4,), "int32"), tir.Var("n")
    view, worker = tir.Buffer("V", (4,), "int32"), tir.Call("int32", "worker_id", ())
    address = tir.Call("handle", "address_of", (tir.BufferLoad(workspace, (tir.const(16),)),))
    other = (worker + 1) % tir.Call("int32", "num_workers", ())
    steps = tir.seq(
        tir.BufferStore(view, worker * n, (worker,)),
        tir.Evaluate(tir.Call("int32", "barrier", ())),
        tir.BufferStore(out, tir.BufferLoad(view, (other,)), (worker,)),
    )
    body = tir.AssertStmt(n > 0, "n must be positive", tir.DeclBuffer(view, address, steps))
    func = tir.PrimFunc("f", [workspace, out, n], body, {"spmd": True})
    result = np.zeros(4, np.int32)
    interpret(func, np.zeros(64, np.uint8), result, 10, workers=4)
    assert result.tolist() == [10, 20, 30, 0]
    with pytest.raises(InputError, match="n must be positive"):
        interpret(func, np.zeros(64, np.uint8), result, 0, workers=2)
