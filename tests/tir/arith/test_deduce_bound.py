"""Bounds deduced from conditions, checked by evaluating the conditions."""

from __future__ import annotations

import random

import pytest

from tilewright.tir import op
from tilewright.tir.arith import IntervalSet, Range, deduce_bound
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Expr, SizeVar, Var

X, Y, N = Var("x"), Var("y"), SizeVar("n")
COMPARISONS = (op.less, op.less_equal, op.greater, op.greater_equal, op.eq)
RELAXED = {Y: Range(-1, 4)}


def side(rng: random.Random, depth: int, relax: bool) -> Expr:
    if depth == 0:
        return X
    inner, c = side(rng, depth - 1, relax), rng.choice([1, 2, 3, 5])
    other = rng.choice([N, N * 2, op.const(rng.randint(-9, 9)), *([Y, Y * 3] if relax else [])])
    return rng.choice(
        [lambda: inner + other, lambda: other - inner, lambda: inner * c, lambda: inner // c, lambda: inner * N]
    )()


@pytest.mark.parametrize("relax", [False, True])
def test_the_interval_is_where_the_condition_holds(relax: bool) -> None:
    rng, found_some = random.Random(2), 0
    for _ in range(400):
        conditions = [
            rng.choice(COMPARISONS)(side(rng, rng.randint(0, 3), relax), rng.choice([op.const(7), N * 3]))
            for _ in range(rng.randint(1, 2))
        ]
        condition = op.all(*conditions)
        interval = deduce_bound(X, condition, relaxed=RELAXED if relax else None)
        if interval is None:
            continue
        found_some += 1
        for n in (1, 3, 4):
            low, high = (None if end is None else evaluate(end, {N: n}) for end in interval)
            for x in range(-12, 30):
                inside = (low is None or x >= low) and (high is None or x <= high)
                everywhere = all(evaluate(condition, {X: x, Y: y, N: n}) for y in (range(-1, 3) if relax else [0]))
                assert not inside or everywhere
                assert relax or inside == everywhere
    assert found_some > 100


def test_bounds_spelled_out() -> None:
    assert deduce_bound(X, op.less(X * 4 + Y, N), relaxed={Y: Range(0, 4)}) == (None, N // 4 - 1)
    assert deduce_bound(X, op.all(op.greater_equal(X, 2), op.less(X // 4, 3))) == (op.const(2), op.const(11))
    k = Var("k")
    assert deduce_bound(X, op.less_equal(X * k, 7)) is None
    assert deduce_bound(X, op.less_equal(X * k, 7), hints={k: Range(1, 3)}) == (None, 7 // k)


@pytest.mark.parametrize(
    "condition",
    [
        op.less(X % 4, 2),
        op.ne(X, 2),
        op.less(X * X, 9),
        op.less(X + Y, 9),
        op.any(op.less(X, 1), op.less(5, X)),
    ],
    ids=repr,
)
def test_what_cannot_be_isolated(condition: Expr) -> None:
    assert deduce_bound(X, condition, relaxed={Y: IntervalSet(None, None)}) is None
