"""Integer analysis of index expressions: constant bounds, modular sets, simplification and proofs, in a context.

The context is what is known of variables: their ranges, and conditions that hold. Arithmetic of int32 and int64 is
taken not to overflow (docs/ir.md), except on values that come from memory and whose bounds are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.bounds import (
    ANYTHING,
    BOUNDS,
    MODULAR,
    UNBOUNDED,
    Bound,
    Modular,
    meet_bound,
    meet_modular,
    type_bound,
)
from tilewright.tir.arith.linear import INDEX_TYPES, Linear, conjuncts
from tilewright.tir.arith.range import Range
from tilewright.tir.arith.simplify import Simplifier
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.visitor import children, uses_var

_PROOF_DEPTH = 2  # how many known conditions one proof may combine
_PROOF_QUOTIENTS = 2  # how many of its quotients one proof may take apart
_CONTEXT = ("_bounds", "_modular", "facts", "_bound_memo", "_modular_memo", "_exact_memo")
_TRANSPARENT_CALLS = ("if_then_else", "likely", "worker_id", "num_workers")


class Analyzer:
    """Facts known about integer variables, and the conclusions drawn from them.

    Results are remembered; a `bind` or a `constraint` forgets those that may become sharper.
    """

    def __init__(self) -> None:
        self.values: dict[Var, Expr] = {}
        self.facts: list[Linear] = []  # each is known to be at most 0
        self._bounds: dict[Expr, Bound] = {}
        self._modular: dict[Expr, Modular] = {}
        self._bound_memo: dict[Expr, Bound] = {}
        self._modular_memo: dict[Expr, Modular] = {}
        self._exact_memo: dict[Expr, bool] = {}
        self._ranks: dict[Expr, int] = {}
        self._simplifier = Simplifier(self)

    # ------------------------------------------------------------------------------------------------ context
    def bind(self, var: Var, value: Any, extent: Any = None) -> None:
        """Let `var` lie in a `Range`, in a (min, extent) pair, in [value, value + extent), or equal an expression."""
        if var in self._ranks:
            self._unlearn(var)
        elif var in self._bound_memo or var in self._modular_memo:
            self._forget()  # questions about it were asked before
        self.rank(var)
        if extent is None and isinstance(value, Expr):
            self.values[var] = self.simplify(value)
            return
        if extent is None:
            value, extent = (value.min, value.extent) if isinstance(value, Range) else value
        low, count = op.match(op.convert(value), op.convert(extent))
        low, count = self.simplify(low), self.simplify(count)
        (first, last), (_, most) = self.const_int_bound(low), self.const_int_bound(count)
        high = None if last is None or most is None else last + most - 1
        if isinstance(low, IntImm) and isinstance(count, IntImm):
            high = max(low.value, low.value + count.value - 1)  # an empty loop's body may be looked at all the same
        else:
            form = Linear.of(var).minus(Linear.of(low))
            self._know(form.times(-1))
            for limit in _minimum_parts(count):
                self._know(form.minus(Linear.of(limit)).shifted(1))
        self._bounds[var] = (first, high)

    def set_bound(self, var: Var, low: int | None, high: int | None) -> None:
        """Let `var` lie between two integers, both included; None is an open end."""
        self._unlearn(var)
        self.rank(var)
        self._bounds[var] = (low, high)

    def set_modular(self, var: Var, coefficient: int, base: int) -> None:
        """Let `var` be coefficient * k + base for some integer k."""
        self._unlearn(var)
        self.rank(var)
        self._modular[var] = (coefficient, base % coefficient if coefficient else base)

    def _unlearn(self, var: Var) -> None:
        """Forget what was known of a variable that gets a new meaning, such as that of a second loop."""

        def stays(atom: Expr) -> bool:
            return not uses_var(atom, lambda used: used is var)

        self._forget()
        self.values.pop(var, None)
        self.facts = [fact for fact in self.facts if all(stays(atom) for atom in fact.terms)]
        self._bounds = {atom: bound for atom, bound in self._bounds.items() if isinstance(atom, Var) or stays(atom)}
        self._modular = {atom: known for atom, known in self._modular.items() if stays(atom)}

    @contextmanager
    def constraint(self, condition: Expr) -> Iterator[None]:
        """Within the context `condition` is known to hold; comparisons of integers joined by `and` are made use of."""
        condition = self.simplify(condition)
        learnable = [fact for fact in conjuncts(condition) if isinstance(fact, e.CompareExpr) and _of_index(fact)]
        if not learnable:
            yield
            return
        saved, memo = [getattr(self, name) for name in _CONTEXT], self._simplifier.memo
        self._bounds, self._modular, self.facts = dict(self._bounds), dict(self._modular), list(self.facts)
        for fact in learnable:
            self._learn(fact)
        self._forget()
        try:
            yield
        finally:
            self._simplifier.memo = memo
            for name, value in zip(_CONTEXT, saved, strict=True):
                setattr(self, name, value)

    def _forget(self) -> None:
        self._bound_memo, self._modular_memo, self._exact_memo, self._simplifier.memo = {}, {}, {}, {}

    def _learn(self, fact: Any) -> None:
        if not self.exact(Linear.of(fact.a)) or not self.exact(Linear.of(fact.b)):
            return
        form = Linear.of(fact.a).minus(Linear.of(fact.b))
        if isinstance(fact, (e.LT, e.LE, e.EQ)):
            self._know(form.shifted(1 if isinstance(fact, e.LT) else 0))
        if isinstance(fact, (e.GT, e.GE, e.EQ)):
            self._know(form.times(-1).shifted(1 if isinstance(fact, e.GT) else 0))
        if isinstance(fact, e.EQ) and len(form.terms) == 1:
            ((atom, k),) = form.terms.items()
            rest = isinstance(atom, (e.FloorMod, e.Mod))
            if rest and isinstance(atom.b, IntImm) and k in (1, -1) and atom.b.value > 0:  # type: ignore[attr-defined]
                modulus = atom.b.value  # type: ignore[attr-defined]
                known = (modulus, -form.constant * k % modulus)
                self._modular[atom.a] = meet_modular(self.modular_set(atom.a), known)  # type: ignore[attr-defined]

    def _know(self, form: Linear) -> None:
        """Take note that `form` is at most 0."""
        if len(form.terms) != 1:
            if form.terms:
                self.facts.append(form)
            return
        ((atom, k),) = form.terms.items()
        limit: Bound = (None, -form.constant // k) if k > 0 else (-(-form.constant // -k), None)
        self._bounds[atom] = meet_bound(self._bounds.get(atom, UNBOUNDED), limit)
        self._bound_memo.pop(atom, None)

    def rank(self, atom: Expr) -> int:
        """The position of an atom in sums: variables in the order of `bind`, the rest as first met."""
        return self._ranks.setdefault(atom, len(self._ranks))

    # ---------------------------------------------------------------------------------------------- questions
    def simplify(self, expr: Expr) -> Expr:
        """An equal expression, usually smaller: sums in one order, divisions and comparisons resolved."""
        return self._simplifier(expr)

    def const_int_bound(self, expr: Expr) -> Bound:
        """The smallest and largest value as integers; None where unbounded. Of a vector: of all lanes."""
        found = self._bound_memo.get(expr)
        if found is None:
            found = self._bound_memo[expr] = self._bound(expr)
        return found

    @nested
    def _bound(self, expr: Expr) -> Bound:
        rule = BOUNDS.get(type(expr))
        found = rule(self, expr) if rule is not None else type_bound(expr)
        known = self._bounds.get(expr)
        if known is not None:
            return meet_bound(found, known)
        return self.const_int_bound(self.values[expr]) if isinstance(expr, Var) and expr in self.values else found

    def modular_set(self, expr: Expr) -> Modular:
        """(coefficient, base) with `expr` = coefficient * k + base for some integer k; (1, 0): any value, (0, b): b."""
        found = self._modular_memo.get(expr)
        if found is None:
            found = self._modular.get(expr)
            if found is None and isinstance(expr, Var) and expr in self.values:
                found = self.modular_set(self.values[expr])
            if found is None:
                found = self._modular_by_rule(expr)
            self._modular_memo[expr] = found
        return found

    @nested
    def _modular_by_rule(self, expr: Expr) -> Modular:
        rule = MODULAR.get(type(expr)) if expr.dtype in INDEX_TYPES else None
        return rule(self, expr) if rule is not None else ANYTHING

    def can_prove(self, condition: Expr) -> bool:
        """True if `condition` certainly holds."""
        return op.is_const(self.simplify(condition), 1)

    def can_prove_equal(self, a: Expr, b: Expr) -> bool:
        """True if `a` and `b` certainly have the same value."""
        return a is b or op.is_const(self.simplify(a - b), 0)

    def linear(self, expr: Expr) -> Linear:
        """`expr`, simplified, as a sum of multiples of atoms."""
        return Linear.of(self.simplify(expr))

    # ------------------------------------------------------------------------------------------ sums and proofs
    def bound_of(self, form: Linear) -> Bound:
        """Constant bounds of a sum."""
        low: int | None = form.constant
        high: int | None = form.constant
        for atom, coefficient in form.terms.items():
            first, last = self.const_int_bound(atom)
            if coefficient < 0:
                first, last = last, first
            low = None if low is None or first is None else low + coefficient * first
            high = None if high is None or last is None else high + coefficient * last
            if low is None and high is None:
                break
        return low, high

    def at_most_zero(self, form: Linear, depth: int = _PROOF_DEPTH, quotients: int = _PROOF_QUOTIENTS) -> bool:
        """True if the sum is provably at most 0, from bounds, known conditions, and minima and maxima taken apart.

        Of its quotients up to so many are taken apart as well, before conditions are used: every order of both would be
        tried otherwise.
        """
        high = self.bound_of(form)[1]
        if high is not None and high <= 0:
            return True
        if depth == 0:
            return False
        for atom, k in form.terms.items():
            if isinstance(atom, (e.Min, e.Max)):
                either = isinstance(atom, e.Min) == (k > 0)
                forms = (form.replaced(atom, Linear.of(part)) for part in (atom.a, atom.b))
                parts = (self.at_most_zero(part, depth, quotients) for part in forms)
                return any(parts) if either else all(parts)
        for atom, k in form.terms.items() if quotients else ():
            limit = _without_quotient(form, atom, k)
            if limit is not None and self.at_most_zero(limit, depth, quotients - 1):
                return True
        return any(self._follows(form, fact, depth) for fact in self.facts)

    def _follows(self, form: Linear, fact: Linear, depth: int) -> bool:
        """True if form <= 0 follows from fact <= 0: form - ratio * fact is at most 0."""
        for atom, k in fact.terms.items():
            wanted = form.terms.get(atom)
            if wanted is not None and wanted * k > 0 and wanted % k == 0:
                return self.at_most_zero(form.plus(fact, -(wanted // k)), depth - 1, 0)
        return False

    def exact(self, form: Linear) -> bool:
        """True if no part of the sum may have wrapped around: it is made of variables and of bounded values."""
        return all(self._exact_atom(atom) for atom in form.terms)

    def _exact_atom(self, x: Expr) -> bool:
        if isinstance(x, (Var, IntImm)):
            return True
        found = self._exact_memo.get(x)
        if found is None:
            low, high = self.const_int_bound(x)
            found = (low is not None and high is not None) or self._exact_node(x)
            self._exact_memo[x] = found
        return found

    def _exact_node(self, x: Expr) -> bool:
        if isinstance(x, (e.BufferLoad, e.ProducerLoad, e.Reduce)):
            return False
        if isinstance(x, e.Call) and x.op not in _TRANSPARENT_CALLS:
            return False
        if isinstance(x, e.Cast) and not x.value.dtype.is_int:
            return x.value.dtype.is_bool
        return all(self._exact_atom(child) for child in children(x))


def _without_quotient(form: Linear, atom: Expr, k: int) -> Linear | None:
    """A sum without the term k * atom, a quotient, such that `form` is at most 0 if it is; None where there is none.

    x + y // c <= 0 where y + c*x <= c - 1, and x - y // c <= 0 where c*x <= y. Of a multiple of c the remainder is left
    out: what is rounded up is no less than it was, n - 16*((n + 15) // 16) <= 0. It is tried where something cancels.
    """
    if not isinstance(atom, e.FloorDiv) or not isinstance(atom.b, IntImm) or atom.b.value <= 1:
        return None
    dividend = Linear.of(atom.a)
    if k in (1, -1):
        scaled = form.replaced(atom, Linear({}, 0)).times(atom.b.value).plus(dividend, k)
        return scaled.shifted(1 - atom.b.value) if k == 1 else scaled
    if k % atom.b.value:
        return None
    times = k // atom.b.value
    if not any(form.terms.get(part, 0) * n * times < 0 for part, n in dividend.terms.items()):
        return None
    return form.replaced(atom, Linear({}, 0)).plus(dividend, times).shifted(max(-times, 0) * (atom.b.value - 1))


def _minimum_parts(x: Expr) -> list[Expr]:
    return [*_minimum_parts(x.a), *_minimum_parts(x.b)] if isinstance(x, e.Min) else [x]


def _of_index(fact: e.CompareExpr) -> bool:
    return fact.a.dtype in INDEX_TYPES
