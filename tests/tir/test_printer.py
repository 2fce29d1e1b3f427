"""The text of expressions and programs."""

from __future__ import annotations

import pytest

from tilewright import te, tir
from tilewright.tir.printer import to_text

X, Y = tir.Var("x"), tir.Var("y")
F = tir.Var("f", "float32")


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((X + Y) * 2 - X, "(x + y) * 2 - x"),
        (X - (Y - 1), "x - (y - 1)"),
        (X - Y - 1, "x - y - 1"),
        (X // 4 % 3, "x // 4 % 3"),
        (X % (Y * 2), "x % (y * 2)"),
        (tir.all(X < 4, tir.any(Y < 2, tir.eq(X, Y))), "x < 4 and (y < 2 or x == y)"),
        (tir.Not(tir.LT(X, Y)), "not x < y"),
        (tir.Not(tir.And(X < Y, Y < X)), "not (x < y and y < x)"),
        (tir.eq((X < Y).astype("int32"), 1), "int32(x < y) == 1"),
        (tir.minimum(X, Y + 1), "min(x, y + 1)"),
        (tir.truncdiv(X, Y), "truncdiv(x, y)"),
        (F / 2.0, "f / 2.0"),
        (F + 0.1, "f + 0.1"),
        (tir.const(1e-5) * F, "1e-05 * f"),
        (tir.const(float("-inf")), "-inf"),
        (tir.const(0.1, "float64"), "float64(0.1)"),
        (tir.const(3, "int64"), "int64(3)"),
        (tir.const(True), "True"),
        (X + tir.const(-1), "x + -1"),
        (tir.select(X < Y, X, Y), "select(x < y, x, y)"),
        (tir.exp(F), "exp(f)"),
        (tir.call_extern("float32", "expf", F), "call_extern(\"float32\", 'expf', f)"),
        (tir.reinterpret("int32", F), 'reinterpret("int32", f)'),
        (tir.Ramp(X, tir.const(1), 8), "ramp(x, 1, 8)"),
        (tir.Broadcast(F, 8), "broadcast(f, 8)"),
        (tir.Shuffle((F, F), (1, 0)), "shuffle([f, f], [1, 0])"),
        (tir.Let(X, Y + 1, X * X), "let(x=y + 1, x * x)"),
    ],
)
def test_expressions_print_as_listed(expr: tir.Expr, text: str) -> None:
    assert to_text(expr) == text
    assert repr(expr) == text


def test_a_program_prints_its_loops_and_buffers() -> None:
    i, j, n = tir.Var("i"), tir.Var("j"), tir.SizeVar("n")
    a, b = tir.Buffer("A", (n, 16)), tir.Buffer("B", (n, 16), "int8")
    t = tir.Buffer("T", (16,), scope="local")
    inner = tir.For(
        j, tir.const(0), tir.const(16), tir.ForKind.SERIAL,
        tir.BufferStore(t, tir.BufferLoad(a, (i, j)), (j,)), annotations={"unroll": 4},
    )  # fmt: skip
    guarded = tir.IfThenElse(
        tir.likely(i < n - 1),
        tir.BufferStore(b, tir.cast("int8", tir.BufferLoad(t, (i % 16,))), (i, tir.const(0))),
        tir.Evaluate(tir.Call("int32", "barrier", ())),
    )
    body = tir.Allocate(t, tir.seq(inner, guarded))
    func = tir.PrimFunc("main", [a, b, n], tir.For(i, tir.const(1), n - 1, tir.ForKind.PARALLEL, body), {"spmd": False})
    assert (
        to_text(func)
        == """\
def main(A: float32[n, 16], B: int8[n, 16], n: int32):
    # spmd = False
    for i in parallel(1, n):
        T = allocate(float32[16], scope="local")
        for j in range(16):  # unroll=4
            T[j] = A[i, j]
        if likely(i < n - 1):
            B[i, 0] = int8(T[i % 16])
        else:
            barrier()"""
    )


def test_every_other_statement_has_its_text() -> None:
    a = tir.Buffer("A", (4,))
    view = tir.Buffer("V", (4,))
    handle = tir.Call("handle", "address_of", (tir.BufferLoad(a, (tir.const(0),)),))
    store = tir.BufferStore(view, F, (X,))
    body: tir.Stmt = tir.DeclBuffer(view, handle, tir.LetStmt(F, tir.const(1.0), store))
    body = tir.AssertStmt(X < 4, "x is too large", tir.AttrStmt("pragma", X, 3, body))
    assert (
        to_text(tir.While(X < Y, body))
        == """\
while x < y:
    assert x < 4, 'x is too large'
    with attribute('pragma', 3, on=x):
        V = view(float32[4], address_of(A[0]))
        f = 1.0
        V[x] = f"""
    )


def test_names_that_clash_get_suffixes_in_order() -> None:
    first, second, third = tir.Var("i"), tir.Var("i"), tir.Var("i_1")
    assert to_text(first + second + third + first) == "i + i_1 + i_1_1 + i"
    assert to_text(tir.Var("conv.out") + 1) == "conv_out + 1"


def test_large_expressions_name_their_shared_parts() -> None:
    x: tir.Expr = F
    for _ in range(100):
        x = x * x + 1.0
    lines = to_text(x).splitlines()
    assert lines[1].startswith("t1 = t0 * t0")
    assert len(lines) <= 101
    assert all(len(line) < 200 for line in lines)


def test_reductions_print_with_axis_and_condition() -> None:
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    total = te.compute((4,), lambda i: te.sum(a[i, k] * 2.0, axis=k, where=k.var < i), name="S")
    assert to_text(total.op.body[0]) == "sum(A[i, k] * 2.0, axis=[k], where=k < i)"
