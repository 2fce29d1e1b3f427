"""Systems of linear inequalities over the integers, solved by Fourier–Motzkin elimination."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from tilewright.errors import UnsupportedError
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.constraints import (
    IntConstraints,
    IntConstraintsTransform,
    is_index,
    range_conditions,
    split_terms,
    unknowns,
)
from tilewright.tir.arith.linear import Linear, conjuncts
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import substitute

_MOST_INEQUALITIES = 2000  # elimination squares their number at worst


@dataclass(frozen=True)
class VariableBounds:
    """A variable is at least each of `lower` and at most each of `upper`."""

    lower: tuple[Expr, ...]
    upper: tuple[Expr, ...]

    def to_range(self) -> Range | None:
        """The values between the bounds; None where there is none on a side. The extent of an empty range is 0."""
        if not self.lower or not self.upper:
            return None
        low, high = reduce(op.maximum, self.lower), reduce(op.minimum, self.upper)
        return Range(low, op.maximum(high - low + 1, 0))


@dataclass(frozen=True)
class SolvedInequalities:
    """For each variable its bounds, which mention variables after it only; `rest` mentions none, or is not linear.

    All bounds and the rest together hold at exactly the integer points at which the system does.
    """

    bounds: Mapping[Var, VariableBounds]
    rest: tuple[Expr, ...]

    def relations(self) -> tuple[Expr, ...]:
        """Everything as conditions."""
        conditions: list[Expr] = []
        for variable, bound in self.bounds.items():
            conditions += [op.greater_equal(variable, low) for low in bound.lower]
            conditions += [op.less_equal(variable, high) for high in bound.upper]
        return (*conditions, *self.rest)


def solve_linear_inequalities(
    inequalities: Sequence[Expr], variables: Sequence[Var], ranges: Mapping[Var, Range] | None = None
) -> SolvedInequalities:
    """Bounds of each variable, in terms of those that stand after it: `variables` reversed is an order of loops.

    `0 <= x, x <= y, y < 8` for (x, y) becomes x in [0, y] and y in [0, 7]. Exact over the integers, as bounds of x
    keep every inequality with x; what is derived for later variables is implied, and tightened to whole numbers.
    Comparisons that are not linear in the variables with constant coefficients, `!=` among them, are kept as they are.

    Raises UnsupportedError where elimination makes more than 2000 inequalities.
    """
    (variables, dtype), analyzer = unknowns("solve_linear_inequalities", variables), Analyzer()
    forms, rest = _forms([*inequalities, *range_conditions(ranges or {})], variables, analyzer)
    bounds: dict[Var, VariableBounds] = {}
    for variable in variables:
        above = [f for f in forms if f.terms.get(variable, 0) > 0]
        below = [f for f in forms if f.terms.get(variable, 0) < 0]
        bounds[variable] = VariableBounds(
            tuple(dict.fromkeys(analyzer.simplify(_limit(f, variable, dtype)) for f in below)),
            tuple(dict.fromkeys(analyzer.simplify(_limit(f, variable, dtype)) for f in above)),
        )
        derived = [_eliminated(f, g, variable) for f in above for g in below]
        forms = _tightest([*(f for f in forms if variable not in f.terms), *derived], analyzer)
        if len(forms) > _MOST_INEQUALITIES:
            raise UnsupportedError(
                f"solve_linear_inequalities: {len(forms)} inequalities without {variable.name}; "
                f"solve for fewer variables than the {len(variables)} given or order them otherwise"
            )
    rest += [op.less_equal(f.to_expr(dtype), 0) for f in forms]
    simple = dict.fromkeys(analyzer.simplify(x) for x in rest)
    return SolvedInequalities(bounds, tuple(x for x in simple if not op.is_const(x, 1)))


def deskew_ranges(
    inequalities: Sequence[Expr], variables: Sequence[Var], ranges: Mapping[Var, Range] | None = None
) -> IntConstraintsTransform:
    """The system over variables that start at 0: each old one is its lower bound plus a new one, where it is bounded.

    `0 <= x, x <= y, 3 <= y, y < 8` becomes x = x_0, y = y_0 + 3 with x_0 in [0, y_0 + 4) and y_0 in [0, 5). A variable
    without a bound on a side is carried over, and the bound it has becomes a relation.
    """
    solved, analyzer = solve_linear_inequalities(inequalities, variables, ranges), Analyzer()
    forward: dict[Var, Expr] = {}
    backward: dict[Var, Expr] = {}
    spans: dict[Var, Range] = {}
    relations: list[Expr] = [*solved.rest]
    for variable in reversed(variables):
        fresh = Var(f"{variable.name}_0", variable.dtype)
        bound = solved.bounds[variable]
        span = bound.to_range()
        low = op.const(0, variable.dtype) if span is None else span.min
        forward[variable] = analyzer.simplify(fresh + substitute(low, forward))
        backward[fresh] = analyzer.simplify(variable - low)
        if span is not None:
            spans[fresh] = Range(op.const(0, variable.dtype), analyzer.simplify(substitute(span.extent, forward)))
        else:
            relations += [op.greater_equal(variable, x) for x in bound.lower]
            relations += [op.less_equal(variable, x) for x in bound.upper]
    left = tuple(analyzer.simplify(substitute(x, forward)) for x in relations)
    source = IntConstraints(tuple(variables), dict(ranges or {}), tuple(inequalities))
    target = IntConstraints(tuple(reversed(backward)), spans, left)
    return IntConstraintsTransform(source, target, forward, backward)


def _forms(conditions: Sequence[Expr], variables: Sequence[Var], analyzer: Analyzer) -> tuple[list[Linear], list[Expr]]:
    """(sums known to be at most 0, what is not linear)."""
    forms: list[Linear] = []
    rest: list[Expr] = []
    for fact in [part for condition in conditions for part in conjuncts(condition)]:
        if not isinstance(fact, e.CompareExpr) or not is_index(fact) or isinstance(fact, e.NE):
            rest.append(fact)
            continue
        form = analyzer.linear(fact.a).minus(analyzer.linear(fact.b))
        if split_terms(form, variables) is None:
            rest.append(fact)
            continue
        if isinstance(fact, e.LT | e.LE | e.EQ):
            forms.append(form.shifted(1 if isinstance(fact, e.LT) else 0))
        if isinstance(fact, e.GT | e.GE | e.EQ):
            forms.append(form.times(-1).shifted(1 if isinstance(fact, e.GT) else 0))
    return _tightest(forms, analyzer), rest


def _limit(form: Linear, variable: Var, dtype: str) -> Expr:
    """The upper (coefficient positive) or lower (negative) bound of `variable` where the sum is at most 0."""
    k = form.terms[variable]
    rest = form.minus(Linear({variable: k}))
    if k > 0:
        return op.floordiv(rest.times(-1).to_expr(dtype), k)
    return op.floordiv(rest.shifted(-k - 1).to_expr(dtype), -k)


def _eliminated(above: Linear, below: Linear, variable: Var) -> Linear:
    """The consequence of two inequalities that bound the variable from either side, free of it."""
    up, down = above.terms[variable], -below.terms[variable]
    common = math.gcd(up, down)
    return above.times(down // common).plus(below, up // common)


def _tightest(forms: Sequence[Linear], analyzer: Analyzer) -> list[Linear]:
    """The sums, at most 0 each, divided by common factors and rounded; of two with the same terms the sharper one."""
    sharpest: dict[frozenset[tuple[Expr, int]], Linear] = {}
    for form in forms:
        factor = math.gcd(*form.terms.values()) or 1
        form = Linear({x: k // factor for x, k in form.terms.items()}, -(-form.constant // factor))
        if analyzer.at_most_zero(form):
            continue
        key = frozenset(form.terms.items())
        if key not in sharpest or sharpest[key].constant < form.constant:
            sharpest[key] = form
    return list(sharpest.values())
