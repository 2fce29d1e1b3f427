"""One broken program per rule of the checker, and whole pipelines that must pass it at every stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright import te, tir
from tilewright.errors import InternalError
from tilewright.tir.stmt import ForKind
from tilewright.tir.verify import verify

I, N = tir.Var("i"), tir.SizeVar("n")
A, B = tir.Buffer("A", (16, 4)), tir.Buffer("B", (16,), "int32")
ZERO, EIGHT = tir.const(0), tir.const(8)


def raw(cls: Any, dtype: str | None, **fields: Any) -> Any:
    """A node made without its constructor's checks, as a faulty pass might."""
    made = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    if dtype is not None:
        object.__setattr__(made, "dtype", tir.DType(dtype))
    return made


def store(value: Any, index: Any = ZERO) -> tir.Stmt:
    return tir.BufferStore(B, value, (index,))


def loop(body: tir.Stmt, **changes: Any) -> tir.For:
    fields = {"var": I, "min": ZERO, "extent": EIGHT, "kind": ForKind.SERIAL, "body": body, "thread": ""}
    return tir.For(**{**fields, **changes})


def bad_ramp() -> tir.Expr:
    return raw(tir.Ramp, "int32x4", base=tir.const(1.0), stride=ZERO, lanes=4)  # type: ignore[no-any-return]


BROKEN: list[tuple[Callable[[], tir.Stmt], str]] = [
    (lambda: store(I), "i is read outside its scope"),
    (lambda: tir.seq(loop(store(I)), store(I)), "i is read outside its scope"),
    (lambda: loop(loop(store(I))), "defined again"),
    (lambda: tir.BufferStore(tir.Buffer("C", (4,), "int32"), ZERO, (ZERO,)), "C is accessed outside"),
    (lambda: store(tir.const(1.0)), "stores float32 into int32"),
    (lambda: store(tir.Broadcast(ZERO, 4)), "index of 1 lanes"),
    (lambda: tir.BufferStore(B, ZERO, (ZERO, ZERO)), "gets 2 indices"),
    (lambda: store(ZERO, tir.const(1.0)), "index 0 of B is float32"),
    (lambda: tir.BufferStore(A, tir.const(0.0), (tir.Ramp(ZERO, tir.const(1), 4), ZERO)), "only the last may be"),
    (lambda: loop(store(I), extent=tir.const(8, "int64")), "the range int32 and int64"),
    (lambda: loop(store(I), extent=N, kind=ForKind.VECTORIZED), "needs a constant extent"),
    (lambda: loop(store(I), thread="threadIdx.x"), "with thread 'threadIdx.x'"),
    (lambda: tir.IfThenElse(ZERO, store(ZERO)), "a condition of int32"),
    (lambda: tir.LetStmt(I, tir.const(1.0), store(I)), "its value float32"),
    (lambda: tir.Evaluate(N + 1), "without effect"),
    (lambda: store(tir.Call("int32", "frobnicate", ())), "not in tir/intrinsics.py"),
    (lambda: store(tir.Call("int32", "worker_id", (ZERO,))), "takes 0 arguments"),
    (lambda: store(tir.Call("int32", "exp", (ZERO,))), "is of floats"),
    (lambda: store(tir.Call("int32", "likely", (N < 3,))), "one dtype"),
    (lambda: store(tir.Call("int32", "reinterpret", (tir.const(1.0, "float64"),))), "differ in size"),
    (lambda: store(raw(tir.IntImm, "int32", value=2**40)), "no value of int32"),
    (lambda: store(raw(tir.Add, "int32", a=ZERO, b=tir.const(1.0))), "operands of int32 and float32"),
    (lambda: store(tir.cast("int32", raw(tir.And, "bool", a=N, b=N))), "logic of int32"),
    (lambda: tir.BufferStore(B, bad_ramp(), (bad_ramp(),)), "scalar integer type"),
    (lambda: store(tir.Shuffle((tir.Broadcast(N, 4),), (5,))), "outside the 4 lanes"),
    (lambda: tir.DeclBuffer(tir.Buffer("V", (4,)), ZERO, store(ZERO)), "the address of V is int32"),
    (lambda: tir.Allocate(tir.Buffer("T", (I,)), store(ZERO)), "i is read outside"),
    (lambda: store(te.placeholder((4,), "int32", name="P")[0]), "lowering to loops must have replaced it"),
]


@pytest.mark.parametrize(("build", "message"), BROKEN, ids=[m for _, m in BROKEN])
def test_each_broken_program_is_refused_with_its_reason(build: Callable[[], tir.Stmt], message: str) -> None:
    with pytest.raises(InternalError) as failure:
        verify(tir.PrimFunc("main", [A, B, N], build()))
    assert "in main" in str(failure.value)
    assert message in str(failure.value)


def test_a_valid_program_passes_the_checker() -> None:
    t = tir.Buffer("T", (N,), "int32")
    body = tir.Allocate(t, tir.seq(loop(tir.BufferStore(t, I, (I,))), loop(store(tir.BufferLoad(t, (I,)), I))))
    verify(tir.PrimFunc("main", [A, B, N], body))


@pytest.mark.parametrize("vectorize", [False, True])
def test_every_stage_of_lowering_passes(vectorize: bool) -> None:
    a = te.placeholder((20, 33), name="A")
    k = te.reduce_axis((0, 33), "k")
    total = te.compute((20,), lambda i: te.sum(a[i, k], axis=k), name="S")
    out = te.compute((20,), lambda i: tir.tanh(total[i]), name="O")
    schedule = te.create_schedule(out.op)
    outer, inner = schedule[out].split(out.op.axis[0], factor=8)
    schedule[total].compute_at(schedule[out], outer)
    schedule[out].parallel(outer)
    if vectorize:
        schedule[out].vectorize(inner)
    stages = list(te.lower_stages(schedule, [a, out]))
    assert len(stages) > 10
    for _, func in stages:
        verify(func)
