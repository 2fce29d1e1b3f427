"""Integer analysis of index expressions: constant bounds, simplification and proofs, under the ranges of variables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.arith.linear import Linear
from tilewright.arith.range import Range
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.visitor import Rewriter

Bound = tuple[int | None, int | None]
UNBOUNDED: Bound = (None, None)


class Analyzer:
    """What is known of integer variables, and what follows from it."""

    def __init__(self) -> None:
        self._bounds: dict[Expr, Bound] = {}
        self._values: dict[Var, Expr] = {}
        self._simplifier = _Simplifier(self)
        self._bound_memo: dict[Expr, Bound] = {}

    def bind(self, var: Var, value: Any) -> None:
        """Let `var` lie in a `Range`, in a (min, extent) pair, or be equal to an expression."""
        self._simplifier.memo.clear()
        self._bound_memo.clear()
        if isinstance(value, Expr):
            self._values[var] = self.simplify(value)
            self._simplifier.memo.clear()
            return
        low, extent = (value.min, value.extent) if isinstance(value, Range) else (op.convert(value[0]), op.convert(value[1]))
        (first, last), (_, count) = self.const_int_bound(low), self.const_int_bound(extent)
        high = None if last is None or count is None else last + count - 1
        self._bounds[var] = (first, high if high is None or first is None else max(high, first))

    def simplify(self, expr: Expr) -> Expr:
        """An equal expression, usually smaller: sums in one order, divisions and remainders resolved where provable."""
        return self._simplifier(expr)

    def const_int_bound(self, expr: Expr) -> Bound:
        """The smallest and largest value as integers; None where unbounded. Of a vector: of all lanes."""
        found = self._bound_memo.get(expr)
        if found is None:
            found = self._bound_memo[expr] = self._bound(expr)
        return found

    def modular_set(self, expr: Expr) -> tuple[int, int]:
        """(coefficient, base) with `expr` = coefficient * k + base for some integer k; (1, 0) if nothing is known."""
        form = self.linear(expr)
        divisor = 0
        for coefficient in form.terms.values():
            divisor = math.gcd(divisor, coefficient)
        return (0, form.constant) if divisor == 0 else (divisor, form.constant % divisor)

    def can_prove(self, condition: Expr) -> bool:
        """True if `condition` certainly holds."""
        result = self.simplify(condition)
        return isinstance(result, IntImm) and result.value != 0

    def can_prove_equal(self, a: Expr, b: Expr) -> bool:
        """True if `a` and `b` certainly have the same value."""
        return a is b or op.is_const(self.simplify(a - b), 0)

    @contextmanager
    def constraint(self, condition: Expr) -> Iterator[None]:
        """Within the context `condition` is known to hold (comparisons of a variable with a constant are used)."""
        saved = dict(self._bounds)
        for fact in _conjuncts(condition):
            self._learn(fact)
        self._simplifier.memo.clear()
        self._bound_memo.clear()
        try:
            yield
        finally:
            self._bounds = saved
            self._simplifier.memo.clear()
            self._bound_memo.clear()

    def _learn(self, fact: Expr) -> None:
        if not isinstance(fact, (e.LT, e.LE, e.GT, e.GE, e.EQ)) or not fact.a.dtype.is_int:
            return
        form = self.linear(fact.a).minus(self.linear(fact.b))
        if len(form.terms) != 1:
            return
        ((atom, coefficient),) = form.terms.items()
        if abs(coefficient) != 1:
            return
        low, high = self.const_int_bound(atom)
        less = isinstance(fact, (e.LT, e.LE))
        slack = 1 if isinstance(fact, (e.LT, e.GT)) else 0
        if isinstance(fact, e.EQ):
            low = high = -form.constant * coefficient
        elif less == (coefficient == 1):
            limit = -form.constant - slack if less else form.constant - slack
            high = limit if high is None else min(high, limit)
        else:
            limit = form.constant + slack if less else -form.constant + slack
            low = limit if low is None else max(low, limit)
        self._bounds[atom] = (low, high)

    def linear(self, expr: Expr) -> Linear:
        """`expr`, simplified, as a sum of multiples of atoms."""
        return Linear.of(self.simplify(expr))

    def bound_of(self, form: Linear) -> Bound:
        """Bounds of a sum."""
        low: int | None = form.constant
        high: int | None = form.constant
        for atom, coefficient in form.terms.items():
            first, last = self.const_int_bound(atom)
            if coefficient < 0:
                first, last = last, first
            low = None if low is None or first is None else low + coefficient * first
            high = None if high is None or last is None else high + coefficient * last
        return low, high

    def _bound(self, x: Expr) -> Bound:
        if x in self._bounds:
            return self._bounds[x]
        handler = _BOUNDS.get(type(x))
        return handler(self, x) if handler else _type_bound(x)


def _type_bound(x: Expr) -> Bound:
    if x.dtype.is_bool or (x.dtype.is_int and x.dtype.bits < 32):
        return x.dtype.limits()
    return (0, None) if x.dtype.code == "uint" else UNBOUNDED


def _conjuncts(x: Expr) -> list[Expr]:
    if isinstance(x, e.And):
        return [*_conjuncts(x.a), *_conjuncts(x.b)]
    return _conjuncts(x.args[0]) if isinstance(x, e.Call) and x.op == "likely" else [x]


def _sum_bound(a: Analyzer, x: Any) -> Bound:
    return a.bound_of(Linear.of(x))


def _div_bound(a: Analyzer, x: Any) -> Bound:
    low, high = a.const_int_bound(x.a)
    c = op.as_const(x.b)
    if not isinstance(c, int) or c <= 0:
        return UNBOUNDED
    return (None if low is None else low // c, None if high is None else high // c)


def _mod_bound(a: Analyzer, x: Any) -> Bound:
    c = op.as_const(x.b)
    if not isinstance(c, int) or c <= 0:
        return UNBOUNDED
    low, high = a.const_int_bound(x.a)
    if low is not None and high is not None and low // c == high // c:
        return low % c, high % c
    return 0, c - 1


def _min_bound(a: Analyzer, x: Any) -> Bound:
    (l1, h1), (l2, h2) = a.const_int_bound(x.a), a.const_int_bound(x.b)
    highs = [h for h in (h1, h2) if h is not None]
    return (None if l1 is None or l2 is None else min(l1, l2), min(highs) if highs else None)


def _max_bound(a: Analyzer, x: Any) -> Bound:
    (l1, h1), (l2, h2) = a.const_int_bound(x.a), a.const_int_bound(x.b)
    lows = [v for v in (l1, l2) if v is not None]
    return (max(lows) if lows else None, None if h1 is None or h2 is None else max(h1, h2))


def _union(first: Bound, second: Bound) -> Bound:
    low = None if first[0] is None or second[0] is None else min(first[0], second[0])
    return low, None if first[1] is None or second[1] is None else max(first[1], second[1])


def _ramp_bound(a: Analyzer, x: Any) -> Bound:
    step = op.as_const(x.stride)
    low, high = a.const_int_bound(x.base)
    if not isinstance(step, int):
        return UNBOUNDED
    span = step * (x.lanes - 1)
    return (None if low is None else low + min(span, 0), None if high is None else high + max(span, 0))


_BOUNDS: dict[type, Any] = {
    IntImm: lambda a, x: (x.value, x.value),
    e.SizeVar: lambda a, x: (1, None),
    e.Add: _sum_bound,
    e.Sub: _sum_bound,
    e.Mul: lambda a, x: _product_bound(a.const_int_bound(x.a), a.const_int_bound(x.b)),
    e.FloorDiv: _div_bound,
    e.FloorMod: _mod_bound,
    e.Min: _min_bound,
    e.Max: _max_bound,
    e.Select: lambda a, x: _union(a.const_int_bound(x.true_value), a.const_int_bound(x.false_value)),
    e.Broadcast: lambda a, x: a.const_int_bound(x.value),
    e.Ramp: _ramp_bound,
    e.Cast: lambda a, x: a.const_int_bound(x.value) if x.value.dtype.is_int and x.dtype.is_int and x.dtype.bits >= x.value.dtype.bits else _type_bound(x),
}  # fmt: skip


def _product_bound(a: Bound, b: Bound) -> Bound:
    if None in a or None in b:
        both_positive = a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0
        return (a[0] * b[0], None) if both_positive else UNBOUNDED  # type: ignore[operator]
    corners = [x * y for x in a for y in b]  # type: ignore[operator]
    return min(corners), max(corners)


class _Simplifier(Rewriter):
    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.analyzer = analyzer

    def visit_Var(self, x: Var) -> Expr:
        known = self.analyzer._values.get(x)
        if known is not None:
            return known
        low, high = self.analyzer._bounds.get(x, UNBOUNDED)
        return op.const(low, x.dtype) if low is not None and low == high else x

    visit_SizeVar = visit_Var

    def _sum(self, x: Any) -> Expr:
        if not x.dtype.is_int or x.dtype.lanes > 1:
            return self._binary(x)
        a, b = self(x.a), self(x.b)
        form = Linear.of(a).plus(Linear.of(b)) if isinstance(x, e.Add) else Linear.of(a).minus(Linear.of(b))
        return form.recombined().to_expr(x.dtype)

    visit_Add = visit_Sub = _sum

    def visit_Mul(self, x: e.Mul) -> Expr:
        if not x.dtype.is_int or x.dtype.lanes > 1:
            return self._binary(x)
        a, b = self(x.a), self(x.b)
        for value, factor in ((a, b), (b, a)):
            number = op.as_const(factor)
            if isinstance(number, int):
                return Linear.of(value).times(number).to_expr(x.dtype)
        return op.multiply(a, b)

    def _binary(self, x: Any) -> Expr:
        a, b = self(x.a), self(x.b)
        return _BUILD[type(x)](a, b)

    visit_Div = visit_Mod = _binary

    def visit_FloorDiv(self, x: e.FloorDiv) -> Expr:
        a, b = self(x.a), self(x.b)
        c = op.as_const(b)
        if x.dtype.lanes > 1 or not isinstance(c, int) or c <= 0:
            return op.floordiv(a, b)
        whole, rest = Linear.of(a).split(c)
        return whole.plus(Linear.of(self._rest_div(rest, c, x.dtype))).recombined().to_expr(x.dtype)

    def _rest_div(self, rest: Linear, c: int, dtype: Any) -> Expr:
        low, high = self.analyzer.bound_of(rest)
        if low is not None and high is not None and low // c == high // c:
            return op.const(low // c, dtype)
        g = math.gcd(c, *rest.terms.values())
        if g > 1:
            rest, c = rest.floor_over(g), c // g
        if c == 1:
            return rest.to_expr(dtype)
        if len(rest.terms) == 1 and rest.constant == 0:
            ((atom, coefficient),) = rest.terms.items()
            inner = op.as_const(atom.b) if isinstance(atom, e.FloorDiv) else None
            if coefficient == 1 and isinstance(inner, int) and inner > 0 and isinstance(atom, e.FloorDiv):
                return self(e.FloorDiv(atom.a, op.const(inner * c, dtype)))
        return op.floordiv(rest.to_expr(dtype), op.const(c, dtype))

    def visit_FloorMod(self, x: e.FloorMod) -> Expr:
        a, b = self(x.a), self(x.b)
        c = op.as_const(b)
        if x.dtype.lanes > 1 or not isinstance(c, int) or c <= 0:
            return op.floormod(a, b)
        _, rest = Linear.of(a).without_mods_of(c).split(c)
        low, high = self.analyzer.bound_of(rest)
        if low is not None and high is not None and low // c == high // c:
            return rest.shifted(-(low // c) * c).to_expr(x.dtype)
        g = math.gcd(c, rest.constant, *rest.terms.values())
        if g > 1:
            inner = op.floormod(rest.floor_over(g).to_expr(x.dtype), op.const(c // g, x.dtype))
            return op.multiply(inner, op.const(g, x.dtype))
        return op.floormod(rest.to_expr(x.dtype), op.const(c, x.dtype))

    def visit_Min(self, x: e.Min) -> Expr:
        return self._extreme(x, op.minimum, smaller=True)

    def visit_Max(self, x: e.Max) -> Expr:
        return self._extreme(x, op.maximum, smaller=False)

    def _extreme(self, x: Any, build: Any, smaller: bool) -> Expr:
        a, b = self(x.a), self(x.b)
        if x.dtype.is_int and x.dtype.lanes == 1:
            low, high = self.analyzer.bound_of(Linear.of(a).minus(Linear.of(b)))
            if high is not None and high <= 0:
                return a if smaller else b
            if low is not None and low >= 0:
                return b if smaller else a
        return build(a, b)

    def _compare(self, x: Any) -> Expr:
        a, b = self(x.a), self(x.b)
        if a.dtype.is_int:
            low, high = self._difference(a, b)
            decided = _DECIDE[type(x)](low, high)
            if decided is not None:
                return op.const(decided, x.dtype)
        return _BUILD[type(x)](a, b)

    visit_EQ = visit_NE = visit_LT = visit_LE = visit_GT = visit_GE = _compare

    def _difference(self, a: Expr, b: Expr) -> Bound:
        if a.dtype.lanes == 1:
            return self.analyzer.bound_of(Linear.of(a).minus(Linear.of(b)))
        (l1, h1), (l2, h2) = self.analyzer.const_int_bound(a), self.analyzer.const_int_bound(b)
        return (None if l1 is None or h2 is None else l1 - h2, None if h1 is None or l2 is None else h1 - l2)

    def visit_And(self, x: e.And) -> Expr:
        return op.logical_and(self(x.a), self(x.b))

    def visit_Or(self, x: e.Or) -> Expr:
        return op.logical_or(self(x.a), self(x.b))

    def visit_Not(self, x: e.Not) -> Expr:
        return op.logical_not(self(x.a))

    def visit_Select(self, x: e.Select) -> Expr:
        condition = self(x.condition)
        value = condition.value if isinstance(condition, e.Broadcast) else condition
        if isinstance(value, IntImm):
            return self(x.true_value if value.value else x.false_value)
        return op.select(condition, self(x.true_value), self(x.false_value))

    def visit_Cast(self, x: e.Cast) -> Expr:
        return op.cast(x.dtype, self(x.value))

    def visit_Call(self, x: e.Call) -> Expr:
        if x.op == "likely":
            return op.likely(self(x.args[0]))
        if x.op == "if_then_else":
            condition = self(x.args[0])
            if isinstance(condition, IntImm):
                return self(x.args[1] if condition.value else x.args[2])
            return op.if_then_else(condition, self(x.args[1]), self(x.args[2]))
        return self.generic(x)


_BUILD: dict[type, Any] = {
    e.Add: op.add, e.Sub: op.subtract, e.Mul: op.multiply, e.Div: op.truncdiv, e.Mod: op.truncmod,
    e.EQ: op.eq, e.NE: op.ne, e.LT: op.less, e.LE: op.less_equal, e.GT: op.greater, e.GE: op.greater_equal,
}  # fmt: skip


def _decide(always: Any, never: Any) -> Any:
    return lambda low, high: True if always(low, high) else False if never(low, high) else None


def _below(limit: int | None, value: int) -> bool:
    return limit is not None and limit < value


def _above(limit: int | None, value: int) -> bool:
    return limit is not None and limit > value


_DECIDE: dict[type, Any] = {
    e.LT: _decide(lambda lo, hi: _below(hi, 0), lambda lo, hi: _above(lo, -1)),
    e.LE: _decide(lambda lo, hi: _below(hi, 1), lambda lo, hi: _above(lo, 0)),
    e.GT: _decide(lambda lo, hi: _above(lo, 0), lambda lo, hi: _below(hi, 1)),
    e.GE: _decide(lambda lo, hi: _above(lo, -1), lambda lo, hi: _below(hi, 0)),
    e.EQ: _decide(lambda lo, hi: lo == hi == 0, lambda lo, hi: _above(lo, 0) or _below(hi, 0)),
    e.NE: _decide(lambda lo, hi: _above(lo, 0) or _below(hi, 0), lambda lo, hi: lo == hi == 0),
}
