"""Sums of integer multiples of atoms, the canonical form of index expressions, and the detection of affine ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.visitor import uses_var

INDEX_TYPES = ("int32", "int64")


class Linear:
    """`sum(coefficient * atom) + constant`. Immutable; no coefficient is 0; an atom is neither a sum nor a constant."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: dict[Expr, int], constant: int = 0) -> None:
        self.terms = terms
        self.constant = constant

    @staticmethod
    def of(x: Expr) -> Linear:
        """The linear form of `x`. What is no sum or constant multiple of index type (int32, int64) is an atom."""
        if x.dtype not in INDEX_TYPES:
            return Linear({}, x.value) if isinstance(x, IntImm) else Linear({x: 1})
        terms: dict[Expr, int] = {}
        constant = _collect(x, 1, terms)
        if 0 in terms.values():
            terms = {atom: k for atom, k in terms.items() if k}
        return Linear(terms, constant)

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """self + factor * other."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + factor * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(terms, self.constant + factor * other.constant)

    def minus(self, other: Linear) -> Linear:
        """self - other."""
        return self.plus(other, -1)

    def times(self, factor: int) -> Linear:
        """factor * self."""
        return Linear({a: c * factor for a, c in self.terms.items()} if factor else {}, self.constant * factor)

    def shifted(self, amount: int) -> Linear:
        """self + amount."""
        return Linear(self.terms, self.constant + amount)

    def replaced(self, atom: Expr, value: Linear) -> Linear:
        """The sum with `value` in place of `atom`."""
        coefficient = self.terms[atom]
        rest = Linear({a: k for a, k in self.terms.items() if a is not atom}, self.constant)
        return rest.plus(value, coefficient)

    def split(self, c: int) -> tuple[Linear, Linear]:
        """(q, r) with the sum equal to c*q + r, where r keeps the terms whose coefficients c does not divide."""
        whole = {a: k // c for a, k in self.terms.items() if k % c == 0}
        rest = {a: k for a, k in self.terms.items() if k % c}
        return Linear(whole, self.constant // c), Linear(rest, self.constant % c)

    def without_mods_of(self, c: int) -> Linear:
        """The sum with terms (x % m) where c divides coefficient * m replaced by x: the same value modulo c."""
        result = self
        for atom in self.terms:
            if isinstance(atom, e.FloorMod) and isinstance(atom.b, IntImm) and atom.b.value > 0:
                coefficient = result.terms.get(atom, 0)
                if coefficient and coefficient * atom.b.value % c == 0:
                    result = result.replaced(atom, Linear.of(atom.a))
        return result

    def recombined(self) -> Linear:
        """k*m*(x // m) + k*(x % m) replaced by k*x, and k*m*(x // m % n) + k*(x % m) by k*(x % (m*n))."""
        for atom, k in self.terms.items():
            if not (isinstance(atom, e.FloorMod) and isinstance(atom.b, IntImm)):
                continue
            m = atom.b.value
            for other, k2 in self.terms.items():
                if k2 != k * m:
                    continue
                joined = _join(atom, other, m)
                if joined is not None:
                    pair = Linear({atom: k, other: k2})
                    return self.minus(pair).plus(Linear.of(joined), k).recombined()
        return self

    def to_expr(self, dtype: str, rank: Callable[[Expr], int] | None = None) -> Expr:
        """The sum as an expression: positive terms, negative terms, constant; each kind in the order of `rank`."""
        items = list(self.terms.items())
        if rank is not None and len(items) > 1:
            items.sort(key=lambda item: rank(item[0]))
        if any(k < 0 for _, k in items):
            items.sort(key=lambda item: item[1] < 0)
        result: Expr | None = None
        for atom, k in items:
            if k < 0 and result is not None:
                result = e.Sub(result, atom if k == -1 else e.Mul(atom, op.const(-k, dtype)))
            elif result is None and k < 0 and self.constant > 0:
                return _from_constant(self.constant, items, dtype)
            else:
                term = atom if k == 1 else e.Mul(atom, op.const(k, dtype))
                result = term if result is None else e.Add(result, term)
        if result is None:
            return op.const(self.constant, dtype)
        if self.constant < 0:
            return e.Sub(result, op.const(-self.constant, dtype))
        return e.Add(result, op.const(self.constant, dtype)) if self.constant else result


def _from_constant(constant: int, items: Sequence[tuple[Expr, int]], dtype: str) -> Expr:
    """15 - x, for a sum whose terms are all negative."""
    result = op.const(constant, dtype)
    for atom, k in items:
        result = e.Sub(result, atom if k == -1 else e.Mul(atom, op.const(-k, dtype)))
    return result


def _collect(x: Any, factor: int, terms: dict[Expr, int]) -> int:
    """Add factor * x to `terms`; the constant part is returned. Iterative, because unrolled sums are long."""
    constant = 0
    stack = [(x, factor)]
    while stack:
        x, factor = stack.pop()
        cls = x.__class__
        if cls is IntImm:
            constant += factor * x.value
        elif cls is e.Add:
            stack += ((x.b, factor), (x.a, factor))
        elif cls is e.Sub:
            stack += ((x.b, -factor), (x.a, factor))
        elif cls is e.Mul and x.b.__class__ is IntImm:
            stack.append((x.a, factor * x.b.value))
        elif cls is e.Mul and x.a.__class__ is IntImm:
            stack.append((x.b, factor * x.a.value))
        else:
            terms[x] = terms.get(x, 0) + factor
    return constant


def _join(low: Any, high: Any, m: int) -> Expr | None:
    """The sum low + m * high for low = x % m: x if high is x // m, x % (m*n) if high is x // m % n.

    The quotient's x may be another number of the same remainder: x % m has lost what makes no difference to it.
    """
    if isinstance(high, e.FloorDiv) and high.b is low.b and (high.a is low.a or _congruent(high.a, low.a, m)):
        return high.a
    if isinstance(high, e.FloorMod) and isinstance(high.b, IntImm) and high.b.value > 0:
        quotient = high.a
        if isinstance(quotient, e.FloorDiv) and quotient.a is low.a and quotient.b is low.b:
            return e.FloorMod(low.a, op.const(m * high.b.value, low.dtype))
    return None


def _congruent(a: Expr, b: Expr, m: int) -> bool:
    """True if a and b are seen to have the same remainder modulo m: f % 7 * 32 and f * 32 modulo 14."""
    difference = Linear.of(a).minus(Linear.of(b)).without_mods_of(m)
    return difference.constant % m == 0 and all(k % m == 0 for k in difference.terms.values())


# -------------------------------------------------------------------------------------------- affine detection
def detect_linear(expr: Expr, variables: Sequence[Var]) -> list[Expr] | None:
    """Coefficients [c0, c1, …, base] with `expr` = c0*v0 + c1*v1 + … + base, free of the variables; None if not affine.

    The coefficients may be symbolic: `i*n + j` is linear in i with coefficient n.
    """
    wanted = set(variables)
    found = _affine(expr, wanted)
    if found is None:
        return None
    coefficients, base = found
    zero = op.const(0, expr.dtype)
    return [*(coefficients.get(v, zero) for v in variables), base]


_Affine = tuple[dict[Var, Expr], Expr]


@nested
def _affine(x: Expr, wanted: set[Var]) -> _Affine | None:
    if not x.dtype.is_int:
        return None
    if isinstance(x, Var) and x in wanted:
        return {x: op.const(1, x.dtype)}, op.const(0, x.dtype)
    if isinstance(x, (e.Add, e.Sub)):
        a, b = _affine(x.a, wanted), _affine(x.b, wanted)
        if a is None or b is None:
            return None
        build = op.add if isinstance(x, e.Add) else op.subtract
        zero = op.const(0, x.dtype)
        keys = dict.fromkeys((*a[0], *b[0]))
        return {v: build(a[0].get(v, zero), b[0].get(v, zero)) for v in keys}, build(a[1], b[1])
    if isinstance(x, e.Mul):
        a, b = _affine(x.a, wanted), _affine(x.b, wanted)
        if a is None or b is None or (a[0] and b[0]):
            return None
        (terms, base), factor = (a, b[1]) if a[0] else (b, a[1])
        return {v: op.multiply(c, factor) for v, c in terms.items()}, op.multiply(base, factor)
    return None if uses_var(x, wanted.__contains__) else ({}, x)


def detect_clip_bound(condition: Expr, variables: Sequence[Var]) -> dict[Var, tuple[Expr | None, Expr | None]] | None:
    """(smallest, largest) value of each variable for which `condition`, a conjunction of comparisons, can hold.

    Each comparison must be affine in exactly one of the variables, with coefficient 1 or -1; None if one is not.
    """
    bounds: dict[Var, tuple[Expr | None, Expr | None]] = {}
    for fact in conjuncts(condition):
        step = _clip(fact, variables)
        if step is None:
            return None
        var, low, high = step
        old_low, old_high = bounds.get(var, (None, None))
        bounds[var] = (
            low if old_low is None else old_low if low is None else op.maximum(old_low, low),
            high if old_high is None else old_high if high is None else op.minimum(old_high, high),
        )
    return bounds


# bounds above, bounds below, slack: what a comparison of a - b with 0 says
_REACH: Mapping[type, tuple[bool, bool, int]] = {
    e.LT: (True, False, 1), e.LE: (True, False, 0), e.GT: (False, True, 1), e.GE: (False, True, 0),
    e.EQ: (True, True, 0),
}  # fmt: skip


def _clip(fact: Expr, variables: Sequence[Var]) -> tuple[Var, Expr | None, Expr | None] | None:
    reach = _REACH.get(type(fact))
    if reach is None:
        return None
    form = detect_linear(fact.a - fact.b, variables)  # type: ignore[attr-defined]
    if form is None:
        return None
    used = [(v, op.as_const(c)) for v, c in zip(variables, form[:-1], strict=True) if not op.is_const(c, 0)]
    if len(used) != 1 or used[0][1] not in (1, -1):
        return None
    (var, coefficient), (above, below, slack) = used[0], reach
    if coefficient == 1:
        limit = op.negative(form[-1])
    else:
        above, below, limit = below, above, form[-1]
    return var, limit + slack if below else None, limit - slack if above else None


@nested
def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a conjunction, looked for through `likely`."""
    if isinstance(condition, e.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    if isinstance(condition, e.Call) and condition.op == "likely":
        return conjuncts(condition.args[0])
    return [condition]
