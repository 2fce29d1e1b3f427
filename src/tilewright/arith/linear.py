"""Sums of multiples of atoms: the canonical form of index expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Expr


@dataclass(frozen=True)
class Linear:
    """`sum(coefficient * atom) + constant`; no coefficient is 0, and the order of the atoms is that of appearance."""

    terms: dict[Expr, int]
    constant: int = 0

    @staticmethod
    def of(x: Expr) -> Linear:
        """The linear form of a (simplified) expression; what is no sum or constant multiple is an atom."""
        if isinstance(x, e.IntImm):
            return Linear({}, x.value)
        if x.dtype.lanes == 1 and x.dtype.is_int:
            if isinstance(x, e.Add):
                return Linear.of(x.a).plus(Linear.of(x.b))
            if isinstance(x, e.Sub):
                return Linear.of(x.a).minus(Linear.of(x.b))
            if isinstance(x, e.Mul):
                for value, factor in ((x.a, x.b), (x.b, x.a)):
                    if isinstance(factor, e.IntImm):
                        return Linear.of(value).times(factor.value)
        return Linear({x: 1})

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        """The sum."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms.items():
            total = terms.get(atom, 0) + sign * coefficient
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(terms, self.constant + sign * other.constant)

    def minus(self, other: Linear) -> Linear:
        """The difference."""
        return self.plus(other, -1)

    def times(self, factor: int) -> Linear:
        """All of it multiplied by an integer."""
        return Linear({a: c * factor for a, c in self.terms.items()} if factor else {}, self.constant * factor)

    def shifted(self, amount: int) -> Linear:
        """The sum plus an integer."""
        return Linear(self.terms, self.constant + amount)

    def split(self, c: int) -> tuple[Linear, Linear]:
        """(q, r) with the sum equal to c*q + r, where r keeps the terms whose coefficients c does not divide."""
        whole = {a: k // c for a, k in self.terms.items() if k % c == 0}
        rest = {a: k for a, k in self.terms.items() if k % c}
        return Linear(whole, self.constant // c), Linear(rest, self.constant % c)

    def floor_over(self, g: int) -> Linear:
        """floor(sum / g), where g divides every coefficient."""
        return Linear({a: k // g for a, k in self.terms.items()}, self.constant // g)

    def without_mods_of(self, c: int) -> Linear:
        """The sum with terms (x % m) where c divides m replaced by x: the same value modulo c."""
        result = self
        for atom, coefficient in self.terms.items():
            if isinstance(atom, e.FloorMod):
                m = op.as_const(atom.b)
                if isinstance(m, int) and m > 0 and m % c == 0:
                    result = result.minus(Linear({atom: coefficient})).plus(Linear.of(atom.a).times(coefficient))
        return result

    def recombined(self) -> Linear:
        """Pairs k*c*(x // c) + k*(x % c) replaced by k*x."""
        result = self
        for atom, coefficient in self.terms.items():
            if isinstance(atom, e.FloorMod) and isinstance(atom.b, e.IntImm) and atom in result.terms:
                quotient: Any = op.floordiv(atom.a, atom.b)
                if result.terms.get(quotient) == coefficient * atom.b.value:
                    pair = Linear({atom: coefficient, quotient: coefficient * atom.b.value})
                    result = result.minus(pair).plus(Linear.of(atom.a).times(coefficient)).recombined()
        return result

    def to_expr(self, dtype: str) -> Expr:
        """The sum as an expression, positive terms first."""
        result: Expr | None = None
        for atom, k in sorted(self.terms.items(), key=lambda item: item[1] < 0):
            if k < 0 and result is not None:
                result = e.Sub(result, atom if k == -1 else e.Mul(atom, op.const(-k, dtype)))
                continue
            term = atom if k == 1 else e.Mul(atom, op.const(k, dtype))
            result = term if result is None else e.Add(result, term)
        if result is None:
            return op.const(self.constant, dtype)
        if self.constant < 0:
            return e.Sub(result, op.const(-self.constant, dtype))
        return e.Add(result, op.const(self.constant, dtype)) if self.constant else result
