"""Simplification of the expressions that splitting, fusing, vectorizing and guarding loops create."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith import Analyzer
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Broadcast, Expr, Ramp, SizeVar, Var

X, Y, Z, N = Var("x"), Var("y"), Var("z"), SizeVar("n")
F = Var("f")  # a fused index over n * m
RANGES = {X: (0, 8), Y: (0, 16), Z: (0, 4)}


def analyzer() -> Analyzer:
    made = Analyzer()
    for var, span in RANGES.items():
        made.bind(var, span)
    return made


def ramp(base: Expr, stride: int = 1, lanes: int = 4) -> Ramp:
    return Ramp(base, op.const(stride), lanes)


def cast4(value: Any) -> Expr:
    return Broadcast(op.convert(value), 4)


CASES: list[tuple[Expr, Any]] = [
    # splitting
    ((X * 16 + Y) // 16, X),
    ((X * 16 + Y) % 16, Y),
    ((X * 32 + Y) // 16, X * 2),
    ((X * 32 + Y) % 16, Y),
    ((Y * 4 + Z) // 8, Y // 2),
    ((Y * 4 + Z) % 8, Y % 2 * 4 + Z),
    ((X * 64 + Y * 4 + Z) // 4 % 16, Y),
    ((X * 64 + Y * 4 + Z) // 64, X),
    ((X * 16 + Y + 16) // 16, X + 1),
    ((X * 16 - Y + 15) // 16, X),
    ((X * 8) // 16, X // 2),
    ((X * 6) % 4, X * 3 % 2 * 2),
    # nested and recombined
    (X // 4 // 8, op.const(0)),
    (F // 4 // 8, F // 32),
    ((F // 4 + 3) // 8, (F + 12) // 32),
    (F % 16 // 4, F // 4 % 4),
    (F % 16 % 8, F % 8),
    (F // 7 * 7 + F % 7, F),
    ((F + 3) // 7 * 7 + (F + 3) % 7, F + 3),
    (F // 28 * 28 + F // 7 % 4 * 7 + F % 7, F),
    (F // 4 % 4 * 4 + F % 4, F % 16),
    # sums
    (X + Y - X, Y),
    ((X + Y) * 2 - X - X, Y * 2),
    (X * 4 + 3 - (X * 4 + 1), op.const(2)),
    ((X + 1) * N - N, X * N),
    (N * X - X * N, op.const(0)),
    # symbolic divisors
    ((X * N) // N, X),
    ((X * N + N) // N, X + 1),
    ((X * N) % N, op.const(0)),
    (F // N * N + F % N, F),
    (F // N * N * 4 + F % N * 4 + X, F * 4 + X),
    (F // ((N - 1) // 2 + 1) * ((N - 1) // 2 + 1) + F % ((N - 1) // 2 + 1), F),
    # order
    (op.minimum(Y, 20), Y),
    (op.maximum(Y, 20), op.const(20)),
    (op.minimum(X, X + Y), X),
    (op.maximum(X + Y, X), X + Y),
    (op.minimum(op.maximum(F, 0), 0), op.const(0)),
    (op.less(X * 16 + Y, 128), True),
    (op.less(X * 16 + Y, 64), op.less(X, 4)),
    (op.greater_equal(X * 16 + Y, 64), op.greater_equal(X, 4)),
    (op.eq(X * 2, 5), False),
    (op.eq(X * 4 + 8, Y * 4), op.eq(X + 2, Y)),
    (op.ne(X, X + 1), True),
    (op.less(F + X, F + Y), op.less(X, Y)),
    (op.all(op.less(X, 8), op.less(F, 9)), op.less(F, 9)),
    (op.any(op.less(X, 8), op.less(F, 9)), True),
    (op.likely(op.less(Y, 16)), True),
    # choices
    (op.select(op.less(Y, 16), X, Y), X),
    (op.if_then_else(op.greater(Y, 16), X, Y), Y),
    (op.select(op.less(F, 4), op.minimum(F, 4), X), op.select(op.less(F, 4), F, X)),
    (op.if_then_else(op.less(F, 4), X, op.maximum(F, 4)), op.if_then_else(op.less(F, 4), X, F)),
    (op.select(op.less(F, 4), op.select(op.less(F, 5), X, Y), Z), op.select(op.less(F, 4), X, Z)),
    (op.logical_not(op.less(F, 4)), op.less_equal(4, F)),
    (op.truncdiv(Y, 3), Y // 3),
    (op.truncmod(Y, 3), Y % 3),
    # vectors
    (ramp(X) + cast4(Y), ramp(X + Y)),
    (cast4(Y) - ramp(X), ramp(Y - X, -1)),
    (ramp(X) * cast4(3), ramp(X * 3, 3)),
    (ramp(X) - ramp(Y), cast4(X - Y)),
    (cast4(X) * cast4(Y), cast4(X * Y)),
    (ramp(X * 4) // cast4(4), cast4(X)),
    (ramp(X * 4) % cast4(4), ramp(op.const(0))),
    (ramp(X * 4, 4) // cast4(4), ramp(X)),
    (ramp(X, 4) % cast4(4), cast4(X % 4)),
    (ramp(X) < cast4(11), cast4(op.const(True))),
    (ramp(X + 12) < cast4(12), cast4(op.const(False))),
    (op.minimum(ramp(X), cast4(20)), ramp(X)),
    (op.maximum(ramp(X), ramp(Y)), ramp(op.maximum(X, Y))),
    (op.select(ramp(X) < cast4(20), ramp(X), ramp(Y)), ramp(X)),
    (Ramp(X + Y - Y, Z - Z, 4), cast4(X)),
    (cast4(op.const(2.0)) * cast4(op.const(3.0)), cast4(op.const(6.0))),
]


@pytest.mark.parametrize(("expr", "wanted"), CASES, ids=[repr(c[0]) for c in CASES])
def test_expressions_of_schedules_simplify_as_listed(expr: Expr, wanted: Any) -> None:
    known = analyzer()
    wanted = op.const(wanted) if isinstance(wanted, bool) else wanted
    got = known.simplify(expr)
    assert got is known.simplify(wanted), got
    assert len(repr(got)) <= len(repr(expr)) + 4
    check_equal(expr, got)


def check_equal(expr: Expr, got: Expr) -> None:
    for x, y, z, f, n in itertools.product((0, 1, 5, 7), (0, 1, 9, 15), (0, 3), (-5, 0, 2, 100), (1, 6)):
        env = {X: x, Y: y, Z: z, F: f, N: n}
        np.testing.assert_array_equal(evaluate(got, env), evaluate(expr, env))


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: op.less(x + 1, x),
        lambda x, y: (x * 4) // 4,
        lambda x, y: (x * 4 + 2) % 4,
        lambda x, y: op.minimum(x, x + 1),
    ],
)
def test_data_may_wrap_around(build: Callable[[Any, Any], Expr]) -> None:
    """Loaded int32 values can be anything: what holds only without overflow must not be assumed of them."""
    from tilewright.tir.buffer import Buffer

    data = Buffer("data", (2,), "int32")
    x, y = (e.BufferLoad(data, (op.const(i),)) for i in range(2))
    expr = build(x, y)
    got = analyzer().simplify(expr)
    for a in (0, 5, -7, 2**31 - 1, -(2**31), 2**30):
        env = {data: np.array([a, 3], np.int32)}
        assert evaluate(got, env) == evaluate(expr, env), (a, got)


def test_bounded_data_is_index_arithmetic() -> None:
    from tilewright.tir.buffer import Buffer

    data = Buffer("data", (2,), "int32")
    index = op.minimum(op.maximum(e.BufferLoad(data, (op.const(0),)), 0), 7)
    known = analyzer()
    assert known.simplify((index * 16 + Y) // 16) is known.simplify(index)


def test_small_integers_wrap() -> None:
    a = Var("a", "uint8")
    known = Analyzer()
    for expr in ((a + op.const(200, "uint8")) // 2, op.less(a, a + op.const(1, "uint8")), (a * 2) // 2):
        got = known.simplify(expr)
        for value in (0, 1, 100, 200, 255):
            assert evaluate(got, {a: value}) == evaluate(expr, {a: value})


def test_floats_keep_their_bits() -> None:
    f = Var("f", "float32")
    for expr in (f + 0.0, f * 1.0, f - f, f * 0.0, op.maximum(op.maximum(f, 0.0), 0.0), op.eq(f, f)):
        got = Analyzer().simplify(expr)
        for value in (0.0, -0.0, 1.5, float("nan"), float("inf")):
            np.testing.assert_array_equal(evaluate(got, {f: value}), evaluate(expr, {f: value}))
            assert np.signbit(evaluate(got, {f: value})) == np.signbit(evaluate(expr, {f: value})) or value != value


def test_long_sums_are_fast() -> None:
    """A chain of a thousand terms, and a deep shared DAG: neither may take time that grows with their tree."""
    total: Expr = X
    for i in range(1000):
        total = e.Add(total, e.Mul(Y, op.const(i % 7)))
    known = analyzer()
    assert known.simplify(total) is known.simplify(X + Y * sum(i % 7 for i in range(1000)))
    deep: Expr = F
    for i in range(60):
        deep = op.minimum(deep, deep + i + 1)
    assert known.simplify(deep) is F


def test_order_of_terms_follows_bind() -> None:
    inner, outer = Var("inner"), Var("outer")
    known = Analyzer()
    known.bind(outer, 0, 4)
    known.bind(inner, 0, 8)
    assert repr(known.simplify(inner + outer * 8 + 3)) == "outer * 8 + inner + 3"
    assert repr(known.simplify(5 - inner)) == "5 - inner"


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_a_choice_of_one_and_zero_keeps_its_type(dtype: str) -> None:
    condition = Var("p", "bool")
    for numbers in ((1, 0), (0, 1)):
        choice = op.select(condition, *[op.const(n, dtype) for n in numbers])
        assert Analyzer().simplify(choice).dtype == dtype


def test_bits_and_casts_of_constants_are_computed() -> None:
    simplify, number = Analyzer().simplify, op.const
    for name, value in (
        ("shift_left", 80),
        ("shift_right", 1),
        ("bitwise_and", 2),
        ("bitwise_or", 11),
        ("bitwise_xor", 9),
    ):
        call = e.Call("int32", name, (number(10), number(3)))
        assert simplify(call) is number(value), name
    beyond = e.Call("int32", "shift_left", (number(1), number(32)))
    assert simplify(beyond) is beyond
    assert simplify(e.Cast("int32", number(2.5))) is number(2)
    assert simplify(e.Cast("float32", number(0.5))) is number(0.5)
    assert simplify(e.Cast("int32", X)) is X


def test_comparisons_that_exclude_each_other_or_leave_nothing_out() -> None:
    simplify = Analyzer().simplify
    for first, second in [(X > 1, X <= 1), (X < Y, X >= Y), (op.less(1, X), X < 2), (X >= 3, op.greater(3, X))]:
        assert simplify(op.logical_and(first, second)) is op.const(False)
    for first, second in [(X > 1, X <= 1), (X < Y, Y <= X), (op.less(0, X), X < 1), (X >= 3, op.greater(4, X))]:
        assert simplify(op.logical_or(first, second)) is op.const(True)
    assert simplify(op.logical_and(X == 1, X != 2)) is op.eq(X, 1)
    assert simplify(op.logical_or(X != 1, X == 2)) is op.ne(X, 1)
