"""The range of an expression while some variables run: a lower end, exact and symbolic, and a width.

An index is kept as a sum of integer multiples of atoms (variables and whatever is not linear), so ends that differ by a
constant are seen to, and the widths of affine accesses come out exact without a general simplifier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.support.dtype import DType
from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op as tir_op
from tilewright.tir.arith.linear import Linear
from tilewright.tir.expr import Expr, IntImm, Var

Width = int | Expr
Span = tuple[float, float]  # constant bounds: integers, or infinite


class Interval(NamedTuple):
    """Values from `lo` to lo + width, both included: all of them, or those a multiple of `step` above `lo`.

    The step is what divisions and remainders by it see through: 2*x + r for x in [0, 8) lies in one residue class.
    """

    lo: Linear
    width: Width
    step: int = 1


def to_expr(value: Linear, dtype: DType) -> Expr:
    """The sum as an expression of `dtype`; atoms of another integer type are converted."""
    if all(atom.dtype is dtype for atom in value.terms):
        return value.to_expr(dtype)
    return Linear({atom.astype(dtype): c for atom, c in value.terms.items()}, value.constant).to_expr(dtype)


def point(value: Linear) -> Interval:
    """The interval of one value."""
    return Interval(value, 0, 0)


class IndexEvaluator:
    """Intervals of index expressions, given those of some variables; every other variable is a fixed unknown.

    `eval` returns None where nothing useful is known (an index read from memory that depends on a running variable).
    `bounds` returns constant bounds, for atoms whose ranges are known through `ranges` (var: (lowest, highest)). `sums`
    are intervals of sums of variables, where these say more than the intervals of the variables: of y * width + x in a
    loop over both.
    """

    def __init__(
        self,
        env: Mapping[Var, Interval] | None = None,
        ranges: Mapping[Var, Span] | None = None,
        sums: Sequence[tuple[Linear, Interval]] = (),
    ) -> None:
        self.env = dict(env or {})
        self.ranges = ranges if ranges is not None else {}
        self._sums = {frozenset(value.terms.items()): interval for value, interval in sums if len(value.terms) > 1}
        self._memo: dict[Expr, Interval | None] = {}
        self._moving: dict[Expr, bool] = {}

    def eval(self, expr: Expr) -> Interval | None:
        """The interval that contains every value of `expr`."""
        if expr in self._memo:
            return self._memo[expr]
        rule = _RULES.get(type(expr))
        result = rule(self, expr) if rule is not None else self._opaque(expr)
        self._memo[expr] = result
        return result

    def affine(self, expr: Expr) -> Linear:
        """`expr` as a sum, when no variable of it runs."""
        interval = self.eval(expr)
        if interval is None or not _is_zero(interval.width):
            return Linear({expr: 1})
        return interval.lo

    def _opaque(self, expr: Expr) -> Interval | None:
        """A node without a rule: an atom if nothing in it runs."""
        return None if self.moves(expr) else point(Linear({expr: 1}))

    @nested
    def moves(self, expr: Expr) -> bool:
        """True if `expr` contains a variable of the environment."""
        if type(expr) in (e.Var, e.SizeVar):
            return expr in self.env
        known = self._moving.get(expr)
        if known is None:
            known = any(self.moves(child) for child in children(expr))
            self._moving[expr] = known
        return known

    # -------------------------------------------------------------------------------------- constant bounds
    def bounds(self, value: Linear) -> Span | None:
        """Constant lower and upper bound of a sum (the upper may be infinite), or None."""
        low: float = value.constant
        high: float = value.constant
        for atom, coefficient in value.terms.items():
            span = self.atom_bounds(atom)
            if span is None:
                return None
            first, last = span if coefficient > 0 else (span[1], span[0])
            low += coefficient * first
            high += coefficient * last
        return low, high

    def atom_bounds(self, atom: Expr) -> Span | None:
        """Constant bounds of one atom, or None."""
        if isinstance(atom, Var):
            return self.ranges.get(atom) or ((0, math.inf) if isinstance(atom, e.SizeVar) else None)
        if isinstance(atom, (e.FloorMod, e.FloorDiv)) and isinstance(atom.b, IntImm) and atom.b.value > 0:
            inner = self._expr_bounds(atom.a)
            by = atom.b.value
            if isinstance(atom, e.FloorMod):
                inside = inner is not None and inner[0] >= 0 and inner[1] < by
                return inner if inside else (0, by - 1)
            return None if inner is None else (_floor(inner[0], by), _floor(inner[1], by))
        if isinstance(atom, (e.FloorMod, e.FloorDiv)):
            inner, size = self._expr_bounds(atom.a), self._expr_bounds(atom.b)
            if inner is None or size is None or inner[0] < 0 or size[0] < 0:
                return None
            return (0, max(size[1] - 1, 0)) if isinstance(atom, e.FloorMod) else (0, inner[1] // max(size[0], 1))
        if isinstance(atom, (e.Min, e.Max)):
            a, b = self._expr_bounds(atom.a), self._expr_bounds(atom.b)
            if a is None or b is None:
                return None
            pick = min if isinstance(atom, e.Min) else max
            return pick(a[0], b[0]), pick(a[1], b[1])
        return None

    def _expr_bounds(self, expr: Expr) -> Span | None:
        still = IndexEvaluator({}, self.ranges)
        return still.bounds(still.affine(expr))

    # ---------------------------------------------------------------------------------------------- rules
    def var(self, expr: Var) -> Interval:
        """A running variable's interval, or the variable itself."""
        return self.env.get(expr) or point(Linear({expr: 1}))

    def add(self, expr: e.Add) -> Interval | None:
        """Ends and widths add, but for a sum that is known as a whole."""
        if self._sums:
            value = Linear.of(expr)
            terms = frozenset((atom, k) for atom, k in value.terms.items() if not self._is_nothing(atom))
            if terms in self._sums:
                whole = self._sums[terms]
                return whole._replace(lo=whole.lo.shifted(value.constant))
        a, b = self.eval(expr.a), self.eval(expr.b)
        return None if a is None or b is None else total(a, b)

    def _is_nothing(self, atom: Expr) -> bool:
        """True for the variable of an axis of one element."""
        value = self.env.get(atom) if isinstance(atom, Var) else None
        return value is not None and _is_zero(value.width) and not value.lo.terms and not value.lo.constant

    def sub(self, expr: e.Sub) -> Interval | None:
        """The subtrahend turns around."""
        a, b = self.eval(expr.a), self.eval(expr.b)
        if a is None or b is None:
            return None
        turned = scaled(b, -1)
        return None if turned is None else total(a, turned)

    def mul(self, expr: e.Mul) -> Interval | None:
        """A constant scales; otherwise one factor must stand still."""
        a, b = self.eval(expr.a), self.eval(expr.b)
        if a is None or b is None:
            return None
        for value, factor_of in ((a, b), (b, a)):
            if not factor_of.lo.terms and _is_zero(factor_of.width):
                return scaled(value, factor_of.lo.constant)
        if _is_zero(a.width) and _is_zero(b.width):
            return point(Linear({to_expr(a.lo, expr.dtype) * to_expr(b.lo, expr.dtype): 1}))
        for moving, still in ((a, b), (b, a)):
            factor = to_expr(still.lo, expr.dtype)
            if _is_zero(still.width) and not moving.lo.terms and isinstance(factor, e.SizeVar):
                return Interval(
                    Linear({factor: moving.lo.constant} if moving.lo.constant else {}), moving.width * factor
                )
        return None

    def floordiv(self, expr: e.FloorDiv) -> Interval | None:
        """(multiple of c + rest) // c, with the width rounded up only where the rest's residue is unknown."""
        a = self.eval(expr.a)
        if a is None or not isinstance(expr.b, IntImm) or expr.b.value <= 0:
            return self._still_quotient(expr, a)
        by = expr.b.value
        whole, rest = a.lo.split(by)
        lo = self._quotient(whole, rest, by, expr.dtype)
        if _is_zero(a.width):
            return point(lo)
        if isinstance(a.width, int) and a.step % by == 0:
            return Interval(lo, a.width // by, a.step // by)
        step = math.gcd(by, *rest.terms.values())
        residue = rest.constant % step
        highest = by - step + residue  # the largest value that lo % by can take
        if not rest.terms:
            highest = rest.constant % by
        highest = min(highest, self._top(rest, by))
        return Interval(lo, (a.width + highest) // by)

    def floormod(self, expr: e.FloorMod) -> Interval | None:
        """lo % c and the same width where the values do not wrap around, else all residues."""
        a = self.eval(expr.a)
        if not isinstance(expr.b, IntImm) or expr.b.value <= 0:
            return self._still_quotient(expr, a)
        by = expr.b.value
        if a is None:
            return Interval(Linear({}), by - 1)
        _, rest = a.lo.split(by)
        if a.step % by == 0:
            return point(self._remainder(rest, by, expr.dtype))
        step = by if not rest.terms else math.gcd(by, *rest.terms.values())
        if isinstance(a.width, int):
            wraps = (rest.constant % step) + a.width >= step
            if not wraps or (a.width + self._top(rest, by) < by):
                return Interval(self._remainder(rest, by, expr.dtype), a.width)
        return Interval(Linear({}), by - 1)

    def _still_quotient(self, expr: e.FloorDiv | e.FloorMod, a: Interval | None) -> Interval | None:
        """A quotient or remainder by a symbolic size: a point where neither operand runs."""
        by = self.eval(expr.b)
        if a is None or by is None or not _is_zero(a.width) or not _is_zero(by.width):
            return self._opaque(expr)
        value = to_expr(a.lo, expr.dtype), to_expr(by.lo, expr.dtype)
        quotient = tir_op.floordiv(*value) if isinstance(expr, e.FloorDiv) else tir_op.floormod(*value)
        return point(Linear({quotient: 1}))

    def _top(self, rest: Linear, by: int) -> int:
        """The largest value of `rest` if it is known to lie in [0, by), else by."""
        span = self.bounds(rest)
        return int(span[1]) if span is not None and span[0] >= 0 and span[1] < by else by

    def _quotient(self, whole: Linear, rest: Linear, by: int, dtype: DType) -> Linear:
        if not rest.terms:
            return whole.shifted(rest.constant // by)
        if self._top(rest, by) < by:
            return whole
        return whole.plus(Linear({to_expr(rest, dtype) // by: 1}))

    def _remainder(self, rest: Linear, by: int, dtype: DType) -> Linear:
        if not rest.terms:
            return Linear({}, rest.constant % by)
        if self._top(rest, by) < by:
            return rest
        return Linear({to_expr(rest, dtype) % by: 1})

    def extremum(self, expr: e.Min | e.Max) -> Interval | None:
        """Of two intervals a known distance apart."""
        a, b = self.eval(expr.a), self.eval(expr.b)
        if a is None or b is None:
            return None
        gap = b.lo.minus(a.lo)
        if _is_zero(a.width) and _is_zero(b.width) and gap.terms:
            return point(Linear({type(expr)(to_expr(a.lo, expr.dtype), to_expr(b.lo, expr.dtype)): 1}))
        if gap.terms or not isinstance(a.width, int) or not isinstance(b.width, int):
            return None
        pick = min if isinstance(expr, e.Min) else max
        low, high = pick(0, gap.constant), pick(a.width, gap.constant + b.width)
        return Interval(a.lo.shifted(low), high - low)

    def either(self, expr: Expr) -> Interval | None:
        """The union of the two sides of a select or if_then_else; an atom if nothing runs."""
        if isinstance(expr, e.Call) and expr.op != "if_then_else":
            return self._opaque(expr)
        if not self.moves(expr):
            return point(Linear({expr: 1}))
        sides = (expr.true_value, expr.false_value) if isinstance(expr, e.Select) else expr.args[1:]  # type: ignore[attr-defined]
        return self.union(self.eval(sides[0]), self.eval(sides[1]))

    def cast(self, expr: e.Cast) -> Interval | None:
        """A conversion between integer types keeps the value (indices do not overflow)."""
        if not (expr.dtype.is_int and expr.value.dtype.is_int) or expr.dtype.bits < expr.value.dtype.bits:
            return self._opaque(expr)
        inner = self.eval(expr.value)
        if inner is None:
            return None
        return Interval(
            Linear({a.astype(expr.dtype): c for a, c in inner.lo.terms.items()}, inner.lo.constant),
            inner.width,
            inner.step,
        )

    def union(self, a: Interval | None, b: Interval | None) -> Interval | None:
        """The smallest known interval that holds both; None if their distance is unbounded."""
        if a is None or b is None:
            return None
        gap = b.lo.minus(a.lo)
        span = self.bounds(gap)
        if span is None or not (math.isfinite(span[0]) and math.isfinite(span[1])):
            return None
        low, high = min(0, int(span[0])), int(span[1])
        if isinstance(a.width, int) and isinstance(b.width, int):
            return Interval(a.lo.shifted(low), max(a.width, high + b.width) - low)
        if a.width is b.width:
            return Interval(a.lo.shifted(low), a.width + (max(0, high) - low))
        return Interval(a.lo.shifted(low), tir_op.maximum(a.width, b.width + high) - low)


def total(a: Interval, b: Interval) -> Interval:
    """All sums of a value of `a` and one of `b`."""
    return Interval(a.lo.plus(b.lo), a.width + b.width, math.gcd(a.step, b.step))


def scaled(interval: Interval, factor: int) -> Interval | None:
    """factor times an interval; None if its symbolic width would have to move the lower end."""
    if factor >= 0:
        return Interval(interval.lo.times(factor), interval.width * factor if factor else 0, interval.step * factor)
    lo, step = interval.lo.times(factor), interval.step * -factor
    if isinstance(interval.width, int):
        return Interval(lo.shifted(factor * interval.width), interval.width * -factor, step)
    return Interval(lo.plus(IndexEvaluator().affine(interval.width), factor), interval.width * -factor, step)


def children(expr: Expr) -> list[Expr]:
    """The operands of an expression."""
    found: list[Expr] = []
    for value in expr.fields():
        if isinstance(value, Expr):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(v for v in value if isinstance(v, Expr))
    return found


def _floor(value: float, by: int) -> float:
    return value // by if math.isfinite(value) else value


def _is_zero(width: Width) -> bool:
    return isinstance(width, int) and width == 0


_RULES: dict[type, Callable[[IndexEvaluator, Any], Interval | None]] = {
    e.IntImm: lambda self, x: point(Linear({}, x.value)),
    e.Var: IndexEvaluator.var,
    e.SizeVar: IndexEvaluator.var,
    e.Add: IndexEvaluator.add,
    e.Sub: IndexEvaluator.sub,
    e.Mul: IndexEvaluator.mul,
    e.FloorDiv: IndexEvaluator.floordiv,
    e.FloorMod: IndexEvaluator.floormod,
    e.Min: IndexEvaluator.extremum,
    e.Max: IndexEvaluator.extremum,
    e.Select: IndexEvaluator.either,
    e.Call: IndexEvaluator.either,
    e.Cast: IndexEvaluator.cast,
}
