"""Interval sets: the values an index expression takes while some variables run, with symbolic ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import uses_var


class IntervalSet(NamedTuple):
    """The integers from `min` to `max`, both included; None is an open end."""

    min: Expr | None
    max: Expr | None

    @classmethod
    def point(cls, value: Expr) -> IntervalSet:
        """The set of one value."""
        return cls(value, value)

    @classmethod
    def of_range(cls, span: Range) -> IntervalSet:
        """The integers of a range."""
        return cls(span.min, span.max)

    @property
    def is_point(self) -> bool:
        """True if both ends are the same expression."""
        return self.min is not None and self.min is self.max

    def to_range(self) -> Range | None:
        """As a `Range`; None if an end is open."""
        return None if self.min is None or self.max is None else Range.from_bounds(self.min, self.max)


EVERYTHING = IntervalSet(None, None)


def eval_interval(
    expr: Expr, ranges: Mapping[Var, IntervalSet | Range], analyzer: Analyzer | None = None
) -> IntervalSet:
    """An interval that holds every value of `expr` while each variable of `ranges` runs over its set.

    Exact where each running variable stands once in an affine expression; else it may be too wide. Other variables
    stay symbolic in the ends.
    """
    sets = {v: IntervalSet.of_range(s) if isinstance(s, Range) else s for v, s in ranges.items()}
    evaluator = _Evaluator(sets, analyzer or Analyzer())
    found = evaluator(expr)
    simplify = evaluator.analyzer.simplify
    if found.is_point:
        return IntervalSet.point(simplify(found.min))  # type: ignore[arg-type]
    return IntervalSet(*[None if end is None else simplify(end) for end in found])


def union(a: IntervalSet, b: IntervalSet, analyzer: Analyzer | None = None) -> IntervalSet:
    """The smallest interval that holds both."""
    simplify = (analyzer or Analyzer()).simplify
    low = None if a.min is None or b.min is None else simplify(op.minimum(a.min, b.min))
    high = None if a.max is None or b.max is None else simplify(op.maximum(a.max, b.max))
    return IntervalSet(low, high)


def intersect(a: IntervalSet, b: IntervalSet, analyzer: Analyzer | None = None) -> IntervalSet:
    """The intersection of two sets; empty (max < min) if they are disjoint."""
    simplify = (analyzer or Analyzer()).simplify
    low = a.min if b.min is None else b.min if a.min is None else simplify(op.maximum(a.min, b.min))
    high = a.max if b.max is None else b.max if a.max is None else simplify(op.minimum(a.max, b.max))
    return IntervalSet(low, high)


class _Evaluator:
    def __init__(self, sets: Mapping[Var, IntervalSet], analyzer: Analyzer) -> None:
        self.sets = sets
        self.analyzer = analyzer
        self._memo: dict[Expr, IntervalSet] = {}

    def __call__(self, x: Expr) -> IntervalSet:
        found = self._memo.get(x)
        if found is None:
            found = self._memo[x] = self._evaluated(x)
        return found

    @nested
    def _evaluated(self, x: Expr) -> IntervalSet:
        if isinstance(x, Var):
            return self.sets.get(x) or IntervalSet.point(x)
        if not uses_var(x, self.sets.__contains__):
            return IntervalSet.point(x)
        rule = _RULES.get(type(x))
        return EVERYTHING if rule is None else rule(self, x)

    def sign(self, x: Expr) -> int:
        """1 if `x` is provably >= 0, -1 if provably <= 0, else 0."""
        low, high = self.analyzer.const_int_bound(self.analyzer.simplify(x))
        return 1 if low is not None and low >= 0 else -1 if high is not None and high <= 0 else 0


def _both(build: Callable[[Any, Any], Expr], a: Expr | None, b: Expr | None) -> Expr | None:
    return None if a is None or b is None else build(a, b)


def _add(s: _Evaluator, x: Any) -> IntervalSet:
    a, b = s(x.a), s(x.b)
    return IntervalSet(_both(op.add, a.min, b.min), _both(op.add, a.max, b.max))


def _subtract(s: _Evaluator, x: Any) -> IntervalSet:
    a, b = s(x.a), s(x.b)
    return IntervalSet(_both(op.subtract, a.min, b.max), _both(op.subtract, a.max, b.min))


def _scaled(build: Callable[[Any, Any], Expr], s: _Evaluator, a: IntervalSet, factor: Expr) -> IntervalSet:
    """`build(a, factor)` for a function that rises with `a` if the factor is positive and falls if it is negative."""
    sign = s.sign(factor)
    if sign == 0:
        return EVERYTHING
    low, high = (a.min, a.max) if sign > 0 else (a.max, a.min)
    return IntervalSet(None if low is None else build(low, factor), None if high is None else build(high, factor))


def _multiply(s: _Evaluator, x: Any) -> IntervalSet:
    a, b = s(x.a), s(x.b)
    if b.is_point:
        return _scaled(op.multiply, s, a, x.b)
    return _scaled(op.multiply, s, b, x.a) if a.is_point else EVERYTHING


def _floordiv(s: _Evaluator, x: Any) -> IntervalSet:
    b = s(x.b)
    return _scaled(op.floordiv, s, s(x.a), x.b) if b.is_point else EVERYTHING


def _floormod(s: _Evaluator, x: Any) -> IntervalSet:
    """The whole [0, c), or less if the dividend provably stays within one block of c."""
    a, b = s(x.a), s(x.b)
    if not b.is_point or not s.analyzer.can_prove(op.greater(x.b, 0)):
        return EVERYTHING
    if a.min is not None and a.max is not None:
        first, last = op.floordiv(a.min, x.b), op.floordiv(a.max, x.b)
        if s.analyzer.can_prove_equal(first, last):
            return IntervalSet(op.floormod(a.min, x.b), op.floormod(a.max, x.b))
    return IntervalSet(op.const(0, x.dtype), op.subtract(x.b, 1))


def _minimum(s: _Evaluator, x: Any) -> IntervalSet:
    a, b = s(x.a), s(x.b)
    high = b.max if a.max is None else a.max if b.max is None else op.minimum(a.max, b.max)
    return IntervalSet(_both(op.minimum, a.min, b.min), high)


def _maximum(s: _Evaluator, x: Any) -> IntervalSet:
    a, b = s(x.a), s(x.b)
    low = b.min if a.min is None else a.min if b.min is None else op.maximum(a.min, b.min)
    return IntervalSet(low, _both(op.maximum, a.max, b.max))


def _ramp(s: _Evaluator, x: e.Ramp) -> IntervalSet:
    """All lanes: from the first to the last, or from the last to the first if the stride is negative."""
    base, sign = s(x.base), s.sign(x.stride)
    span = x.stride * (x.lanes - 1)
    if sign == 0 or not s(x.stride).is_point:
        return EVERYTHING
    low, high = (base.min, _both(op.add, base.max, span)) if sign > 0 else (_both(op.add, base.min, span), base.max)
    return IntervalSet(low, high)


def _call(s: _Evaluator, x: e.Call) -> IntervalSet:
    if x.op == "if_then_else":
        return union(s(x.args[1]), s(x.args[2]), s.analyzer)
    return s(x.args[0]) if x.op == "likely" else EVERYTHING


_RULES: dict[type, Callable[[_Evaluator, Any], IntervalSet]] = {
    e.Add: _add,
    e.Sub: _subtract,
    e.Mul: _multiply,
    e.FloorDiv: _floordiv,
    e.FloorMod: _floormod,
    e.Min: _minimum,
    e.Max: _maximum,
    e.Ramp: _ramp,
    e.Broadcast: lambda s, x: s(x.value),
    e.Select: lambda s, x: union(s(x.true_value), s(x.false_value), s.analyzer),
    e.Call: _call,
}
