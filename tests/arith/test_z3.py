"""The integer and logic rules proved by z3, where it is installed; random evaluation checks them everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.arith.pattern import Hole, Rule
from tilewright.arith.rules import INTEGER_RULES, LOGIC_RULES
from tilewright.tir import expr as e

z3 = pytest.importorskip("z3", reason="z3 is not installed; the rules are still checked by random evaluation")


def term(x: Any, holes: dict[Any, Any]) -> Any:
    """The expression as a z3 term over mathematical integers."""
    if isinstance(x, Hole):
        make = z3.Bool if x.kind == "bool" else z3.Int
        return holes.setdefault(x, make(x.name))
    if isinstance(x, e.IntImm):
        return z3.BoolVal(bool(x.value)) if x.dtype.is_bool else z3.IntVal(x.value)
    if isinstance(x, e.Not):
        return z3.Not(term(x.a, holes))
    a, b = term(x.a, holes), term(x.b, holes)
    quotient = lambda p, q: z3.If(q > 0, p / q, (-p) / (-q))  # noqa: E731  (z3 rounds so that the remainder is >= 0)
    toward_zero = lambda p, q: z3.If(p >= 0, p / q, -((-p) / q))  # noqa: E731
    return {
        e.Add: lambda: a + b,
        e.Min: lambda: z3.If(a < b, a, b),
        e.Max: lambda: z3.If(a > b, a, b),
        e.FloorDiv: lambda: quotient(a, b),
        e.FloorMod: lambda: a - b * quotient(a, b),
        e.Div: lambda: toward_zero(a, b),
        e.Mod: lambda: a - b * toward_zero(a, b),
        e.EQ: lambda: a == b,
        e.NE: lambda: a != b,
        e.LT: lambda: a < b,
        e.LE: lambda: a <= b,
        e.GT: lambda: a > b,
        e.GE: lambda: a >= b,
        e.And: lambda: z3.And(a, b),
        e.Or: lambda: z3.Or(a, b),
    }[type(x)]()


@pytest.mark.parametrize("rule", [pytest.param(r, id=repr(r.pattern)) for r in [*INTEGER_RULES, *LOGIC_RULES]])
def test_rule_is_a_theorem(rule: Rule) -> None:
    holes: dict[Any, Any] = {}
    solver = z3.Solver()
    solver.set("timeout", 2000)
    if rule.condition is not None:
        solver.add(term(rule.condition, holes))
    solver.add(term(rule.pattern, holes) != term(rule.replacement, holes))
    assert solver.check() != z3.sat
