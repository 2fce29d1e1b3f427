"""Every rewrite rule, checked by evaluating both sides on random values that satisfy its condition."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.pattern import Hole, Rule, fill, match, orders
from tilewright.tir.arith.rules import RULES
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Expr
from tilewright.tir.visitor import collect

ALL = [pytest.param(rule, id=f"{rule.pattern!r}") for rules in RULES.values() for rule in rules]
SPECIAL = [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), float("nan"), 3.0e38]


def sample(hole: Hole, rng: random.Random) -> Any:
    if hole.kind == "bool":
        return rng.randint(0, 1)
    return rng.choice(SPECIAL) if hole.kind == "float" else rng.randint(-6, 6)


def dtype_of(hole: Hole) -> str:
    return {"bool": "bool", "float": "float32"}.get(hole.kind, "int32")


def instance(rule: Rule, values: dict[Hole, Any]) -> dict[Any, Expr]:
    """The expressions for the holes: a constant where the rule wants one, else a variable."""
    return {h: op.const(v, dtype_of(h)) if h.constant else e.Var(h.name, dtype_of(h)) for h, v in values.items()}


def same(a: Any, b: Any) -> bool:
    """Equal bit for bit, so that the sign of zero and NaN count."""
    return np.float64(a).tobytes() == np.float64(b).tobytes() or (np.isnan(a) and np.isnan(b))


@pytest.mark.sample(80)
@pytest.mark.parametrize("rule", ALL)
def test_both_sides_have_one_value(rule: Rule) -> None:
    rng = random.Random(0)
    holes = collect([rule.pattern], Hole)
    tried = 0
    for _ in range(300):
        values = {h: sample(h, rng) for h in holes}
        binding = instance(rule, values)
        env = {binding[h]: value for h, value in values.items()}
        condition = None if rule.condition is None else fill(rule.condition, binding)
        if condition is not None and not evaluate(condition, env):
            continue
        expected = evaluate(fill(rule.pattern, binding), env)
        tried += 1
        assert same(evaluate(fill(rule.replacement, binding), env), expected)
    assert tried > 20


@pytest.mark.parametrize("rule", ALL)
def test_the_pattern_matches_its_own_instances(rule: Rule) -> None:
    holes = collect([rule.pattern], Hole)
    binding = instance(rule, {h: 3 + i for i, h in enumerate(holes)})
    node: Expr = rule.pattern
    filled = _replace(node, binding)
    assert match(rule.pattern, filled, found := {})
    assert all(found[h] is binding[h] for h in holes)


def _replace(pattern: Any, binding: dict[Any, Expr]) -> Any:
    """The pattern filled in without folding, so that its form stays."""
    if isinstance(pattern, Hole):
        return binding[pattern]
    if isinstance(pattern, (e.IntImm, e.FloatImm)):
        return pattern
    if isinstance(pattern, e.Call):
        return e.Call(pattern.dtype, pattern.op, [_replace(a, binding) for a in pattern.args])
    return type(pattern)(*[_replace(v, binding) for v in pattern.fields()])


def test_a_hole_stands_for_one_thing_only() -> None:
    x, y = Hole("x"), Hole("y")
    a, b = e.Var("a"), e.Var("b")
    assert match(e.Min(x, y), e.Min(a, b), {})
    assert not match(e.Min(x, x), e.Min(a, b), {})
    assert not match(Hole("p", "bool"), a, {})
    assert not match(Hole("c", constant=True), a, {})


def test_orders_covers_both_ways_round() -> None:
    x, y = Hole("x"), Hole("y")
    assert set(orders(e.Min(e.Max(x, y), x))) == {
        e.Min(e.Max(x, y), x), e.Min(x, e.Max(x, y)), e.Min(e.Max(y, x), x), e.Min(x, e.Max(y, x)),
    }  # fmt: skip
