"""The simplifier proved by z3, where it is installed; random evaluation checks it everywhere.

Every rule of the tables is proved as a theorem. What is written as functions (bounds, remainders, sums, divisions,
intervals) is proved on instances: for random expressions of each node class, the answer holds for all values of the
variables. A rule, a class or a function of division that no proof reaches fails the test.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith import Analyzer, IntervalSet, Range, division, eval_interval
from tilewright.tir.arith.bounds import BOUNDS, MODULAR
from tilewright.tir.arith.int_set import _RULES as INTERVALS
from tilewright.tir.arith.pattern import Rule
from tilewright.tir.arith.rules import RULES
from tilewright.tir.arith.simplify import Simplifier
from tilewright.tir.expr import Expr, SizeVar, Var

z3 = pytest.importorskip("z3", reason="z3 is not installed; the rules are still checked by random evaluation")

from tests.tir.arith.z3_terms import Terms, proved, same  # noqa: E402  (needs z3)

ALL = [pytest.param(rule, id=repr(rule.pattern)) for rules in RULES.values() for rule in rules]
I, J, K, N = Var("i"), Var("j"), Var("k"), SizeVar("n")
SPANS = {I: (0, 16), J: (-5, 12), K: (0, 4)}
LANES = 4
COMPARISONS = (e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE)


@pytest.mark.parametrize("rule", ALL)
def test_rule_is_a_theorem(rule: Rule) -> None:
    terms = Terms()
    claim = same(terms(rule.pattern), terms(rule.replacement))
    assumed = [] if rule.condition is None else [terms(rule.condition)]
    assert proved(claim, [*assumed, *terms.conditions])


def test_a_wrong_rule_is_not_proved() -> None:
    terms = Terms()
    assert not proved(terms(op.minimum(I, J)) == terms(op.maximum(I, J)), [])
    assert not proved(terms(e.FloorDiv(I, op.const(2))) == terms(e.Div(I, op.const(2))), [])


# ------------------------------------------------------------------------------ instances, one maker a node class
def affine(rng: random.Random) -> Expr:
    total: Expr = op.const(rng.randint(-9, 9))
    for v in rng.sample([I, J, K, N], rng.randint(1, 3)):
        total = total + v * rng.choice([-4, -1, 1, 2, 4, 8, 16])
    return total


def index(rng: random.Random) -> Expr:
    x, c, d = affine(rng), rng.choice([2, 3, 4, 8]), rng.choice([2, 4])
    shapes: list[Callable[[], Expr]] = [
        lambda: x, lambda: e.FloorDiv(x, op.const(c)), lambda: e.FloorMod(x, op.const(c)),
        lambda: e.Min(x, affine(rng)), lambda: e.FloorDiv(e.FloorMod(x, op.const(c * d)), op.const(c)),
        lambda: e.FloorDiv(x, op.const(c)) * d + K,
    ]  # fmt: skip
    return rng.choice(shapes)()


def symbolic(rng: random.Random) -> Expr:
    """A dividend of a size that is not known."""
    return I * N if rng.random() < 0.3 else I * N + e.FloorMod(J, N)


def divided(cls: Any, rng: random.Random) -> Expr:
    if cls in (e.FloorDiv, e.FloorMod) and rng.random() < 0.1:
        return cls(symbolic(rng), N)  # type: ignore[no-any-return]
    return cls(index(rng), op.const(rng.choice([2, 3, 4, 6, 8, 16])))  # type: ignore[no-any-return]


def condition(rng: random.Random) -> Expr:
    return rng.choice(COMPARISONS)(index(rng), index(rng))


def pair(cls: Any, operand: Callable[[random.Random], Expr], rng: random.Random) -> Expr:
    return cls(operand(rng), operand(rng))  # type: ignore[no-any-return]


def vector(rng: random.Random) -> Expr:
    if rng.random() < 0.5:
        return e.Broadcast(index(rng), LANES)
    return e.Ramp(index(rng), op.const(rng.choice([-1, 1, 2])), LANES)


def let(rng: random.Random) -> Expr:
    name = Var("t")
    return e.Let(name, rng.choice([op.const(5), J]), name + index(rng))


def call(rng: random.Random) -> Expr:
    if rng.random() < 0.3:
        return op.likely(condition(rng))
    return e.Call("int32", "if_then_else", (condition(rng), index(rng), index(rng)))


MAKERS: dict[type, Callable[[random.Random], Expr]] = {
    e.IntImm: lambda rng: op.const(rng.randint(-9, 9)),
    Var: lambda rng: rng.choice([I, J]),
    SizeVar: lambda rng: N,
    e.Mul: lambda rng: rng.choice([lambda: e.Mul(index(rng), op.const(rng.randint(-4, 4))), lambda: e.Mul(I, K)])(),
    e.Select: lambda rng: e.Select(condition(rng), index(rng), index(rng)),
    e.Not: lambda rng: e.Not(condition(rng)),
    e.Cast: lambda rng: e.Cast("int64", index(rng)),
    e.Ramp: lambda rng: e.Ramp(index(rng), op.const(rng.choice([-2, 0, 1, 3])), LANES),
    e.Broadcast: lambda rng: e.Broadcast(index(rng), LANES),
    e.Let: let,
    e.Call: call,
    **{cls: partial(pair, cls, index) for cls in (e.Add, e.Sub, e.Min, e.Max, *COMPARISONS)},
    **{cls: partial(divided, cls) for cls in (e.FloorDiv, e.FloorMod, e.Div, e.Mod)},
    **{cls: partial(pair, cls, condition) for cls in (e.And, e.Or)},
}
VECTORS = (e.Add, e.Sub, e.Min, e.Max, *COMPARISONS)


def instances(cls: type, count: int) -> list[Expr]:
    rng = random.Random(cls.__name__)
    made = [MAKERS[cls](rng) for _ in range(count)]
    if cls in VECTORS:
        made += [cls(vector(rng), vector(rng)) for _ in range(count // 2)]
    return made


def analyzer() -> Analyzer:
    known = Analyzer()
    for variable, span in SPANS.items():
        known.bind(variable, span)
    return known


def claims(x: Expr, terms: Terms, lane: int) -> list[Any]:
    """The analyzer's facts on one lane of `x`, as formulas."""
    known = analyzer()
    value = terms(x, lane)
    found = [same(value, terms(known.simplify(x), lane))]
    if not x.dtype.is_int:
        return found
    low, high = known.const_int_bound(x)
    step, base = known.modular_set(x)
    found += [value >= low] if low is not None else []
    found += [value <= high] if high is not None else []
    found += [value == base] if step == 0 else [(value - base) % step == 0] if step > 1 else []
    interval = eval_interval(x, {I: Range(0, 16), K: IntervalSet(op.const(0), op.const(3))}, known)
    if interval.min is not None:
        found.append(terms(interval.min, lane) <= value)
    if interval.max is not None:
        found.append(value <= terms(interval.max, lane))
    return found


def assumptions(terms: Terms) -> list[Any]:
    spans = [z3.And(terms(v) >= low, terms(v) < low + n) for v, (low, n) in SPANS.items()]
    return [*spans, terms(N) >= 1, *terms.conditions]


@pytest.mark.long
@pytest.mark.parametrize("cls", MAKERS, ids=lambda cls: cls.__name__)
def test_answers_hold_for_all_values(cls: type) -> None:
    for x in instances(cls, 40):
        for lane in range(x.dtype.lanes):
            terms = Terms()
            found = claims(x, terms, lane)
            assert proved(z3.And(*found), assumptions(terms)), f"{x!r} -> {analyzer().simplify(x)!r}, lane {lane}"


def test_every_class_that_has_a_rule_has_proofs() -> None:
    handled = {getattr(e, name[6:], None) for name in dir(Simplifier) if name.startswith("visit_")}
    classes = {cls for cls in handled if isinstance(cls, type)} - {e.BinaryExpr, e.CompareExpr}
    assert not (classes | BOUNDS.keys() | MODULAR.keys() | INTERVALS.keys()) - MAKERS.keys()


def test_the_proofs_reach_every_function_of_division(monkeypatch: pytest.MonkeyPatch) -> None:
    reached = set()

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            reached.add(name)
            return function(*args)

        return call

    functions = [f for f in inspect.getmembers(division, inspect.isfunction) if f[1].__module__ == division.__name__]
    for name, function in functions:
        monkeypatch.setattr(division, name, watched(name, function))
    for cls in MAKERS:
        for x in instances(cls, 40):
            analyzer().simplify(x)
    assert reached == {name for name, _ in functions}
