"""The rewrite rules of the simplifier, as data: (pattern, replacement, condition), indexed by the pattern's class.

What canonical sums (`linear.py`) and bounds decide is not repeated here. Patterns of commutative operators match in
either order. The tests check every rule by evaluating both sides on random values.
"""

from __future__ import annotations

import itertools

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.pattern import Hole, Rule, orders
from tilewright.tir.expr import Call, Expr, Max, Min, Not, Select

x, y, z = Hole("x"), Hole("y"), Hole("z")
c, d = Hole("c", constant=True), Hole("d", constant=True)
p, q, r = Hole("p", "bool"), Hole("q", "bool"), Hole("r", "bool")
u, v, w = Hole("u", "any"), Hole("v", "any"), Hole("w", "any")
f, g = Hole("f", "float"), Hole("g", "float")
TRUE, FALSE = op.const(True, "bool"), op.const(False, "bool")


def _choose(condition: Expr, a: Expr, b: Expr) -> Call:
    return Call(a.dtype, "if_then_else", (condition, a, b))


def _below(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a < b, either way round."""
    return op.less(a, b), op.greater(b, a)


def _at_most(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """a <= b, either way round."""
    return op.less_equal(a, b), op.greater_equal(b, a)


def _excluded_middle() -> list[Rule]:
    """Two comparisons of the same values of which never both hold, or of which one always holds."""
    always = op.const(True, "bool")
    pairs = [  # what is compared, when they exclude each other, when they leave nothing out
        (_at_most(x, y), _below(y, x), always, always),
        (_below(x, c), _below(d, x), op.less_equal(c - 1, d), op.less(d, c)),
        (_below(x, c), _at_most(d, x), op.less_equal(c, d), op.less_equal(d, c)),
        (_at_most(x, c), _below(d, x), op.less_equal(c, d), op.less_equal(d, c)),
        (_at_most(x, c), _at_most(d, x), op.less(c, d), op.less_equal(d - 1, c)),
    ]
    rules = []
    for firsts, seconds, apart, covering in pairs:
        for first, second in itertools.product(firsts, seconds):
            rules.append(Rule(op.logical_and(first, second), FALSE, None if apart is always else apart))
            rules.append(Rule(op.logical_or(first, second), TRUE, None if covering is always else covering))
    return rules


INTEGER_RULES = [
    Rule(Min(Min(x, y), x), Min(x, y)),
    Rule(Max(Max(x, y), x), Max(x, y)),
    Rule(Min(Max(x, y), x), x),
    Rule(Max(Min(x, y), x), x),
    Rule(Min(Min(x, c), d), Min(x, Min(c, d))),
    Rule(Max(Max(x, c), d), Max(x, Max(c, d))),
    Rule(Min(Max(x, c), d), d, op.less_equal(d, c)),
    Rule(Max(Min(x, c), d), d, op.less_equal(c, d)),
    Rule(Min(Min(x, y), Min(x, z)), Min(Min(x, y), z)),
    Rule(Max(Max(x, y), Max(x, z)), Max(Max(x, y), z)),
    Rule(Min(Max(x, y), Max(x, z)), Max(x, Min(y, z))),
    Rule(Max(Min(x, y), Min(x, z)), Min(x, Max(y, z))),
    Rule(op.truncdiv(x, y), x // y, op.all(op.less_equal(0, x), op.less(0, y))),
    Rule(op.truncmod(x, y), x % y, op.all(op.less_equal(0, x), op.less(0, y))),
    Rule((x % y) % y, x % y),
]
LOGIC_RULES = [
    Rule(op.logical_and(p, p), p),
    Rule(op.logical_or(p, p), p),
    Rule(op.logical_and(p, Not(p)), FALSE),
    Rule(op.logical_or(p, Not(p)), TRUE),
    Rule(op.logical_and(p, op.logical_and(p, q)), op.logical_and(p, q)),
    Rule(op.logical_or(p, op.logical_or(p, q)), op.logical_or(p, q)),
    Rule(op.logical_and(p, op.logical_or(p, q)), p),
    Rule(op.logical_or(p, op.logical_and(p, q)), p),
    Rule(Not(op.eq(u, v)), op.ne(u, v)),
    Rule(Not(op.ne(u, v)), op.eq(u, v)),
    Rule(Not(op.less(x, y)), op.less_equal(y, x)),
    Rule(Not(op.less_equal(x, y)), op.less(y, x)),
    Rule(Not(op.greater(x, y)), op.less_equal(x, y)),
    Rule(Not(op.greater_equal(x, y)), op.less(x, y)),
    Rule(op.logical_and(op.less(x, c), op.less(x, d)), op.less(x, Min(c, d))),
    Rule(op.logical_and(op.less_equal(c, x), op.less_equal(d, x)), op.less_equal(Max(c, d), x)),
    Rule(op.logical_and(op.eq(u, v), op.ne(u, v)), FALSE),
    Rule(op.logical_or(op.eq(u, v), op.ne(u, v)), TRUE),
    Rule(op.logical_and(op.eq(x, c), op.ne(x, d)), op.eq(x, c), op.ne(c, d)),
    Rule(op.logical_or(op.ne(x, c), op.eq(x, d)), op.ne(x, c), op.ne(c, d)),
    *_excluded_middle(),
]
CHOICE_RULES = [
    Rule(Select(p, TRUE, FALSE), p),
    Rule(Select(p, FALSE, TRUE), Not(p)),
    Rule(Select(Not(p), u, v), Select(p, v, u)),
    Rule(Select(p, Select(p, u, v), w), Select(p, u, w)),
    Rule(Select(p, u, Select(p, v, w)), Select(p, u, w)),
    Rule(Select(p, Select(q, u, v), v), Select(op.logical_and(p, q), u, v)),
    Rule(_choose(p, u, u), u),
    Rule(_choose(Not(p), u, v), _choose(p, v, u)),
    Rule(_choose(p, _choose(p, u, v), w), _choose(p, u, w)),
    Rule(_choose(p, u, _choose(p, v, w)), _choose(p, u, w)),
]
ONE, ZERO = op.const(1.0), op.const(0.0)
FLOAT_RULES = [  # only what holds for every value, NaN and both zeros included
    Rule(e.Mul(f, ONE), f),
    Rule(e.Mul(ONE, f), f),
    Rule(e.Div(f, ONE), f),
    Rule(e.Sub(f, ZERO), f),
    Rule(Max(Max(f, g), g), Max(f, g)),
    Rule(Min(Min(f, g), g), Min(f, g)),
]


def _indexed() -> dict[type, list[Rule]]:
    table: dict[type, list[Rule]] = {}
    for rule in [*INTEGER_RULES, *LOGIC_RULES]:
        for pattern in dict.fromkeys(orders(rule.pattern)):
            table.setdefault(type(pattern), []).append(rule._replace(pattern=pattern))
    for rule in [*CHOICE_RULES, *FLOAT_RULES]:
        table.setdefault(type(rule.pattern), []).append(rule)
    return table


RULES: dict[type, list[Rule]] = _indexed()
