"""The analyzer's answers checked by evaluating random expressions on random values of their variables."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith import Analyzer, IntervalSet, Range, eval_interval
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Expr, SizeVar, Var

RANGES = {"i": (0, 16), "j": (0, 7), "k": (-5, 12), "n": (1, 20)}
NUMBERS = [1, 2, 3, 4, 6, 7, 8, 16]
COMPARISONS = [e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE]


class Maker:
    """Makes random expressions over the variables of `RANGES` (n is symbolic: only known to be at least 1)."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.vars: dict[str, Var] = {name: SizeVar(name) if name == "n" else Var(name) for name in RANGES}

    def analyzer(self) -> Analyzer:
        known = Analyzer()
        for name in ("i", "j", "k"):
            known.bind(self.vars[name], RANGES[name])
        return known

    def values(self) -> dict[Var, int]:
        return {self.vars[n]: self.rng.randrange(lo, lo + extent) for n, (lo, extent) in RANGES.items()}

    def index(self, depth: int) -> Expr:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return rng.choice(list(self.vars.values())) if rng.random() < 0.7 else op.const(rng.randint(-20, 20))
        a = self.index(depth - 1)
        kind = rng.choice(
            ["add", "add", "add", "sub", "mul", "div", "mod", "min", "max", "select", "choose", "product"]
        )
        if kind in ("mul", "div", "mod"):
            symbolic = kind != "mul" and rng.random() < 0.1
            c = self.vars["n"] if symbolic else op.const(rng.choice(NUMBERS))
            return {"mul": e.Mul, "div": e.FloorDiv, "mod": e.FloorMod}[kind](a, c)
        b = self.index(depth - 1)
        if kind == "select":
            return op.select(self.condition(depth - 1), a, b)
        if kind == "choose":
            return op.if_then_else(self.condition(depth - 1), a, b)
        return {"add": e.Add, "sub": e.Sub, "min": e.Min, "max": e.Max, "product": e.Mul}[kind](a, b)

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        kind = rng.choice(["and", "or", "not", "likely"]) if depth > 0 and rng.random() < 0.4 else "compare"
        if kind == "compare":
            return rng.choice(COMPARISONS)(self.index(max(depth - 1, 0)), self.index(max(depth - 1, 0)))
        a = self.condition(depth - 1)
        if kind in ("not", "likely"):
            return e.Not(a) if kind == "not" else op.likely(a)
        return (e.And if kind == "and" else e.Or)(a, self.condition(depth - 1))

    def vector(self, depth: int) -> Expr:
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            base = self.index(1)
            return (
                e.Broadcast(base, 4) if rng.random() < 0.4 else e.Ramp(base, op.const(rng.choice([1, 2, 4, -1, 8])), 4)
            )
        a = self.vector(depth - 1)
        kind = rng.choice(["add", "sub", "mul", "div", "mod", "min", "max", "select"])
        if kind in ("mul", "div", "mod"):
            c = e.Broadcast(op.const(rng.choice(NUMBERS)), 4)
            return {"mul": e.Mul, "div": e.FloorDiv, "mod": e.FloorMod}[kind](a, c)
        b = self.vector(depth - 1)
        if kind == "select":
            return op.select(rng.choice(COMPARISONS)(a, b), b, a)
        return {"add": e.Add, "sub": e.Sub, "min": e.Min, "max": e.Max}[kind](a, b)


@pytest.mark.parametrize("seed", range(30))
def test_value_bounds_and_modular_set(seed: int) -> None:
    maker = Maker(seed)
    for _ in range(30):
        known = maker.analyzer()
        x = maker.index(maker.rng.randint(1, 4))
        low, high = known.const_int_bound(x)
        coefficient, base = known.modular_set(x)
        simple = known.simplify(x)
        for _ in range(12):
            env = maker.values()
            expected = evaluate(x, env)
            assert evaluate(simple, env) == expected, (x, simple, env)
            assert (low is None or low <= expected) and (high is None or expected <= high)
            assert expected == base if coefficient == 0 else (expected - base) % coefficient == 0


@pytest.mark.parametrize("seed", range(20))
def test_conditions_known_to_hold(seed: int) -> None:
    maker = Maker(1000 + seed)
    for _ in range(25):
        known = maker.analyzer()
        x = maker.index(2) if maker.rng.random() < 0.5 else maker.condition(2)
        fact = maker.condition(1)
        with known.constraint(fact):
            simple = known.simplify(x)
            low, high = known.const_int_bound(x)
        outside = known.simplify(x)
        for _ in range(15):
            env = maker.values()
            expected = evaluate(x, env)
            holds = evaluate(fact, env)
            assert evaluate(outside, env) == expected
            if holds:
                assert evaluate(simple, env) == expected, (x, fact, simple, env)
                assert (low is None or low <= expected) and (high is None or expected <= high)


@pytest.mark.parametrize("seed", range(20))
def test_answers_hold_for_every_lane_of_vectors(seed: int) -> None:
    maker = Maker(2000 + seed)
    for _ in range(25):
        known = maker.analyzer()
        x = maker.vector(2)
        simple = known.simplify(x)
        low, high = known.const_int_bound(x)
        for _ in range(8):
            env = maker.values()
            expected = evaluate(x, env)
            np.testing.assert_array_equal(evaluate(simple, env), expected, f"{x!r} -> {simple!r}")
            assert (low is None or low <= expected.min()) and (high is None or expected.max() <= high)


@pytest.mark.parametrize("seed", range(20))
def test_answers_hold_for_every_symbolic_extent(seed: int) -> None:
    """Variables that run to a symbolic extent: what is proved must hold for every extent."""
    maker = Maker(3000 + seed)
    i, j, n = (maker.vars[name] for name in "ijn")
    for _ in range(25):
        known = Analyzer()
        known.bind(i, 0, n)
        known.bind(j, 0, op.minimum(4, n - i))
        x = maker.condition(2) if maker.rng.random() < 0.5 else maker.index(2)
        maker_k = maker.vars["k"]
        known.bind(maker_k, RANGES["k"])
        simple = known.simplify(x)
        for _ in range(15):
            size = maker.rng.randrange(1, 9)
            first = maker.rng.randrange(size)
            second = maker.rng.randrange(min(4, size - first))
            env = {n: size, i: first, j: second, maker_k: maker.rng.randrange(-5, 7)}
            expected = evaluate(x, env)
            assert evaluate(simple, env) == expected, (x, simple, env)


@pytest.mark.parametrize("seed", range(15))
def test_intervals_hold_every_value(seed: int) -> None:
    maker = Maker(4000 + seed)
    i, j = maker.vars["i"], maker.vars["j"]
    for _ in range(25):
        x = maker.index(3)
        sets = {i: Range(0, 16), j: IntervalSet(op.const(0), op.const(6))}
        found = eval_interval(x, sets)
        for _ in range(12):
            env = maker.values()
            value = evaluate(x, env)
            ends = [None if end is None else evaluate(end, env) for end in found]
            assert (ends[0] is None or ends[0] <= value) and (ends[1] is None or value <= ends[1]), (x, found, env)
