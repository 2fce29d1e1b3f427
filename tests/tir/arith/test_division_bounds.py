"""Bounds of quotients, remainders, shifts and masks against all values of small ranges."""

from __future__ import annotations

import itertools
import random

import pytest

from tilewright import tir
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.division_bounds import quotient_bound, toward_zero
from tilewright.tir.arith.range import Range
from tilewright.tir.evaluate import evaluate

X, Y = tir.Var("x"), tir.Var("y")
OPERATIONS = {
    "floordiv": tir.floordiv(X, Y), "floormod": tir.floormod(X, Y), "truncdiv": tir.truncdiv(X, Y),
    "truncmod": tir.truncmod(X, Y), "and": X & Y, "shift": X >> Y,
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_bounds_hold_for_all_values(name: str) -> None:
    rng = random.Random(name)
    expr = OPERATIONS[name]
    tight = 0
    for _ in range(120):
        (a, b), (c, d) = sorted(rng.choices(range(-9, 10), k=2)), sorted(rng.choices(range(-5, 8), k=2))
        if name == "shift":
            c, d = abs(c) % 4, abs(c) % 4 + d % 3
        values = [
            int(evaluate(expr, {X: x, Y: y}))
            for x, y in itertools.product(range(a, b + 1), range(c, d + 1))
            if y or name in ("and", "shift")
        ]
        if not values:
            continue
        analyzer = Analyzer()
        analyzer.bind(X, Range(a, tir.const(b - a + 1)))
        analyzer.bind(Y, Range(c, tir.const(d - c + 1)))
        low, high = analyzer.const_int_bound(expr)
        assert low is None or low <= min(values), (a, b, c, d)
        assert high is None or high >= max(values), (a, b, c, d)
        tight += (low, high) == (min(values), max(values))
    assert tight > (100 if name in ("floordiv", "truncdiv", "shift") else 20)


def test_quotients_of_unbounded_intervals_stay_sound() -> None:
    assert quotient_bound((-9, 4), (4, None), toward_zero) == (-2, 1)
    assert quotient_bound((-9, 4), (4, None), lambda p, q: p // q) == (-3, 1)
    assert quotient_bound((None, 4), (2, 3), toward_zero) == (None, 2)
    assert quotient_bound((None, 4), (-2, 3), toward_zero) == (None, None)
    assert quotient_bound((3, None), (None, -1), lambda p, q: p // q) == (None, -1)


def test_what_a_let_binds() -> None:
    assert Analyzer().const_int_bound(tir.Let(X, tir.const(1), X + Y % 3)) == (1, 3)
