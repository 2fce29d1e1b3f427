"""Programs are equal if only the names of what they bind differ."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tilewright import te, tir
from tilewright.tir.structural import structural_equal, structural_hash


def program(
    name: str = "i", extent: int = 8, kind: tir.ForKind = tir.ForKind.SERIAL, dtype: str = "float32", shift: int = 1
) -> tir.PrimFunc:
    i = tir.Var(name)
    a, b = tir.Buffer(f"A_{name}", (16,), dtype), tir.Buffer("B", (16,), dtype)
    store = tir.BufferStore(b, tir.BufferLoad(a, (i + shift,)) * 2, (i,))
    return tir.PrimFunc("f", [a, b], tir.For(i, tir.const(0), tir.const(extent), kind, store))


def test_names_do_not_count() -> None:
    assert structural_equal(program("i"), program("j"))
    assert structural_hash(program("i")) == structural_hash(program("j"))


@pytest.mark.parametrize(
    "other",
    [
        program(extent=9),
        program(kind=tir.ForKind.PARALLEL),
        program(dtype="int32"),
        program(shift=2),
        program().with_body(program().body, spmd=True),
    ],
)
def test_everything_else_counts(other: tir.PrimFunc) -> None:
    assert not structural_equal(program(), other)
    assert structural_hash(program()) != structural_hash(other)


def test_two_loops_may_share_a_variable_or_not() -> None:
    def pair(first: tir.Var, second: tir.Var) -> tir.PrimFunc:
        a = tir.Buffer("A", (8,), "int32")
        loops = [
            tir.For(v, tir.const(0), tir.const(8), tir.ForKind.SERIAL, tir.BufferStore(a, v * 2, (v,)))
            for v in (first, second)
        ]
        return tir.PrimFunc("f", [a], tir.SeqStmt(tuple(loops)))

    i, j, k = (tir.Var(n) for n in "ijk")
    assert structural_equal(pair(i, i), pair(j, k))


def test_which_variable_is_read_counts() -> None:
    def nest(pick: Callable[[tir.Var, tir.Var], tir.Expr]) -> tir.Stmt:
        i, j = tir.Var("i"), tir.Var("j")
        body: tir.Stmt = tir.Evaluate(pick(i, j))
        for v in (j, i):
            body = tir.For(v, tir.const(0), tir.const(8), tir.ForKind.SERIAL, body)
        return body

    assert structural_equal(nest(lambda i, j: i * 8 + j), nest(lambda i, j: i * 8 + j))
    assert not structural_equal(nest(lambda i, j: i * 8 + j), nest(lambda i, j: j * 8 + i))


def test_free_variables_are_themselves() -> None:
    x, y = tir.Var("x"), tir.Var("x")
    assert structural_equal(x + 1, x + 1)
    assert not structural_equal(x + 1, y + 1)
    assert structural_equal(tir.Let(x, tir.const(1), x + 1), tir.Let(y, tir.const(1), y + 1))


def test_constants_are_told_apart() -> None:
    values = [tir.const(0.0), tir.const(-0.0), tir.const(0), tir.const(False), tir.const(0, "int64")]
    assert len({structural_hash(v) for v in values}) == len(values)


def test_tensor_expressions_are_hashed_by_structure() -> None:
    def matmul(n: int, scale: float) -> tir.Expr:
        a = te.placeholder((n, n), name="A")
        k = te.reduce_axis((0, n), "k")
        return te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[k, j] * scale, axis=k)).op.body[0]

    assert structural_hash(matmul(4, 1.5)) == structural_hash(matmul(4, 1.5))
    assert structural_hash(matmul(4, 1.5)) != structural_hash(matmul(4, 2.5))
    assert structural_hash(matmul(4, 1.5)) != structural_hash(matmul(8, 1.5))


def test_a_shared_dag_takes_linear_time() -> None:
    x: tir.Expr = tir.Var("x")
    for i in range(80):
        x = tir.Min(x + i, x * 2)
    assert len(structural_hash(x)) == 64


def test_the_hash_is_the_same_in_another_process() -> None:
    script = (
        "from tilewright import tir; from tilewright.tir.structural import structural_hash;"
        "x = tir.Var('x'); print(structural_hash(tir.select(x < 3, x * 2, x // 7)))"
    )
    x = tir.Var("x")
    here = structural_hash(tir.select(x < 3, x * 2, x // 7))
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=_environment())
    assert run.stdout.strip() == here


def _environment() -> dict[str, str]:
    import os
    from pathlib import Path

    import tilewright

    source = str(Path(tilewright.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": source, "PYTHONHASHSEED": "7"}
