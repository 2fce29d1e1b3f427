"""The values of one variable for which a condition certainly holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.constraints import is_index
from tilewright.tir.arith.int_set import EVERYTHING, IntervalSet, eval_interval, intersect
from tilewright.tir.arith.linear import Linear, conjuncts
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import uses_var

Sets = Mapping[Var, IntervalSet | Range]


def deduce_bound(
    variable: Var, condition: Expr, hints: Sets | None = None, relaxed: Sets | None = None
) -> IntervalSet | None:
    """An interval of `variable` inside which `condition` holds for all values of the `relaxed` variables.

    `x*4 + y < n` with y relaxed over [0, 4) allows x up to `(n - 4) // 4`. Without relaxed variables it is all such
    values. `hints` are the ranges of other variables, from which the signs of factors follow; these variables stay in
    the ends. Interval ends may cross: then no value is known to do. None where the variable cannot be isolated: it
    stands twice after simplification, under `%` or `min`, or its factor has no known sign, or what is relaxed has no
    bound. `condition`: a comparison (`==` needs no relaxed variable beside it to be of use, `!=` is not isolated) or
    a conjunction of them.
    """
    analyzer, spans = Analyzer(), {}
    for name, given in (hints or {}).items():
        spans[name] = given if isinstance(given, Range) else given.to_range()
        if spans[name] is not None:
            analyzer.bind(name, spans[name])
    result: IntervalSet | None = EVERYTHING
    for fact in conjuncts(condition):
        found = _deduce(variable, fact, analyzer, relaxed or {})
        result = None if found is None or result is None else intersect(result, found, analyzer)
    return result


def _deduce(variable: Var, fact: Any, analyzer: Analyzer, relaxed: Sets) -> IntervalSet | None:
    if not is_index(fact) or isinstance(fact, e.NE):
        return None
    below: Expr | None = None
    above: Expr | None = None
    form = analyzer.linear(fact.a).minus(analyzer.linear(fact.b))
    dtype = fact.a.dtype
    if isinstance(fact, e.LT | e.LE | e.EQ):
        inside = _at_most(variable, form.shifted(1 if isinstance(fact, e.LT) else 0), dtype, analyzer, relaxed)
        if inside is None:
            return None
        below, above = inside
    if isinstance(fact, e.GT | e.GE | e.EQ):
        opposite = form.times(-1).shifted(1 if isinstance(fact, e.GT) else 0)
        inside = _at_most(variable, opposite, dtype, analyzer, relaxed)
        if inside is None:
            return None
        return intersect(IntervalSet(below, above), inside, analyzer)
    return IntervalSet(below, above)


def _at_most(variable: Var, form: Linear, dtype: str, analyzer: Analyzer, relaxed: Sets) -> IntervalSet | None:
    """The set on which the sum is at most 0: the one term with the variable is brought to one side and taken apart."""
    terms = [atom for atom in form.terms if uses_var(atom, lambda used: used is variable)]
    if len(terms) != 1:
        return None
    (atom,) = terms
    k = form.terms[atom]
    rest = form.minus(Linear({atom: k}))
    limit = eval_interval(rest.times(-1).to_expr(dtype), relaxed, analyzer).min
    if limit is None:
        return None
    if k > 0:
        return _isolate(variable, atom, op.floordiv(limit, k), True, analyzer, relaxed)
    return _isolate(variable, atom, _ceildiv(op.negative(limit), -k), False, analyzer, relaxed)


def _isolate(variable: Var, x: Any, limit: Expr, below: bool, analyzer: Analyzer, relaxed: Sets) -> IntervalSet | None:
    """The set on which `x` is at most (`below`) or at least `limit`, which is free of relaxed variables."""
    if x is variable:
        end = analyzer.simplify(limit)
        return IntervalSet(None, end) if below else IntervalSet(end, None)
    if not isinstance(x, e.Mul | e.FloorDiv) or uses_var(x.b, relaxed.__contains__):
        return None
    inner, factor = x.a, x.b
    if isinstance(x, e.Mul) and uses_var(factor, lambda used: used is variable):
        inner, factor = factor, inner
    if uses_var(factor, lambda used: used is variable or used in relaxed):
        return None
    if not analyzer.can_prove(op.greater(factor, 0)):
        return None
    if isinstance(x, e.Mul):
        limit = op.floordiv(limit, factor) if below else _ceildiv(limit, factor)
    else:
        limit = limit * factor + (factor - 1) if below else limit * factor
    form = analyzer.linear(inner).minus(Linear.of(limit))
    return _at_most(variable, form if below else form.times(-1), x.dtype, analyzer, relaxed)


def _ceildiv(a: Expr, b: Any) -> Expr:
    return op.floordiv(a + (op.convert(b) - 1), b)
