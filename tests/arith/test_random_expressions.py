"""The analyzer's answers checked by evaluating random expressions on random values of their variables."""

from __future__ import annotations

import random

import pytest

from tilewright.arith.analyzer import Analyzer
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr, IntImm, Var

RANGES = {"i": (0, 16), "j": (0, 7), "k": (-5, 12), "n": (1, 100)}


def evaluate(x: Expr, values: dict[Var, int]) -> int:
    """The value of an integer or bool expression."""
    if isinstance(x, Var):
        return values[x]
    if isinstance(x, IntImm):
        return x.value
    if isinstance(x, e.BinaryExpr):
        folded = op.fold_binary(type(x), evaluate(x.a, values), evaluate(x.b, values), x.a.dtype)
        assert isinstance(folded, IntImm)
        return folded.value
    if isinstance(x, e.Select):
        return evaluate(x.true_value if evaluate(x.condition, values) else x.false_value, values)
    assert isinstance(x, e.Not)
    return 1 - evaluate(x.a, values)


def random_expr(rng: random.Random, variables: list[Var], depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.7 else op.const(rng.randint(-20, 20))
    a = random_expr(rng, variables, depth - 1)
    kind = rng.choice(["add", "add", "sub", "mul", "div", "mod", "min", "max", "select"])
    if kind in ("mul", "div", "mod"):
        c = op.const(rng.choice([1, 2, 3, 4, 7, 8, 16]))
        return {"mul": e.Mul, "div": e.FloorDiv, "mod": e.FloorMod}[kind](a, c)
    b = random_expr(rng, variables, depth - 1)
    if kind == "select":
        c, d = (random_expr(rng, variables, depth - 1) for _ in range(2))
        return op.select(rng.choice([e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE])(a, b), c, d)
    return {"add": e.Add, "sub": e.Sub, "min": e.Min, "max": e.Max}[kind](a, b)


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions(seed: int) -> None:
    rng = random.Random(seed)
    variables = {name: Var(name) for name in RANGES}
    for _ in range(60):
        analyzer = Analyzer()
        for name, (low, extent) in RANGES.items():
            analyzer.bind(variables[name], (low, extent))
        x = random_expr(rng, list(variables.values()), rng.randint(1, 4))
        simple = analyzer.simplify(x)
        low, high = analyzer.const_int_bound(x)
        coefficient, base = analyzer.modular_set(x)
        for _ in range(25):
            values = {variables[n]: rng.randrange(lo, lo + extent) for n, (lo, extent) in RANGES.items()}
            expected = evaluate(x, values)
            assert evaluate(simple, values) == expected
            assert (low is None or low <= expected) and (high is None or expected <= high)
            assert expected == base if coefficient == 0 else (expected - base) % coefficient == 0


def simplified(build) -> Expr:  # type: ignore[no-untyped-def]
    x, y = Var("x"), Var("y")
    analyzer = Analyzer()
    analyzer.bind(x, (0, 64))
    analyzer.bind(y, (0, 16))
    result = build(x, y)
    pair = result if isinstance(result, tuple) else (result,)
    got = analyzer.simplify(pair[0])
    if len(pair) == 2:
        assert got is analyzer.simplify(pair[1]), got
    return got


@pytest.mark.parametrize(
    "rule",
    [
        lambda x, y: ((x * 16 + y) // 16, x),
        lambda x, y: ((x * 16 + y) % 16, y),
        lambda x, y: ((x // 4) // 8, x // 32),
        lambda x, y: ((x * 32 + y) // 16, x * 2),
        lambda x, y: (x // 7 * 7 + x % 7, x),
        lambda x, y: ((x * 8) // 8, x),
        lambda x, y: ((x * 8 + y) % 8, y % 8),
        lambda x, y: ((x * 6) % 4, x * 3 % 2 * 2),
        lambda x, y: ((x % 16) % 8, x % 8),
        lambda x, y: (x + y - x, y),
        lambda x, y: (op.minimum(y, 20), y),
        lambda x, y: (op.maximum(y, 20), op.const(20)),
        lambda x, y: (op.less(x * 16 + y, 1024), op.const(True, "bool")),
        lambda x, y: (op.likely(op.less(y, 16)), op.const(True, "bool")),
        lambda x, y: (op.if_then_else(op.greater(y, 16), x, y), y),
        lambda x, y: (op.select(op.less(y + x, x), x, y), y),
    ],
)
def test_rule(rule) -> None:  # type: ignore[no-untyped-def]
    simplified(rule)


def test_constraint_narrows_only_inside() -> None:
    x = Var("x")
    analyzer = Analyzer()
    analyzer.bind(x, (0, 100))
    with analyzer.constraint(op.less(x, 10)):
        assert analyzer.can_prove(op.less_equal(x, 9))
    with analyzer.constraint(op.greater(3, x)):
        assert analyzer.const_int_bound(x) == (0, 2)
    with analyzer.constraint(op.greater_equal(x, 90)):
        assert analyzer.const_int_bound(x) == (90, 99)
    assert not analyzer.can_prove(op.less_equal(x, 9))


def test_can_prove_equal_sees_through_forms() -> None:
    x, y = Var("x"), Var("y")
    assert Analyzer().can_prove_equal((x + y) * 4, x * 4 + 4 * y)
    assert not Analyzer().can_prove_equal(x, y)
