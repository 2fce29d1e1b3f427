"""Guards as integer inequalities: sum of coefficient*atom + constant <= 0, with interval reasoning over the atoms.

An atom is a variable, or any expression that is not a sum or a multiple (`f // 7`), taken as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir.expr import Expr, IntImm

Interval = tuple[int, int]  # lowest and highest value, both included


@dataclass(frozen=True)
class Guard:
    """`sum(coefficient * atom) + constant <= 0`; `source` is the condition it was read from."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int
    source: Expr

    def bounds(self, ranges: Mapping[Expr, Interval], without: Expr | None = None) -> Interval | None:
        """Lowest and highest value of the left side, the term of `without` left out; None if a range is missing."""
        low = high = self.constant
        for atom, factor in self.terms:
            if atom is without:
                continue
            known = ranges.get(atom)
            if known is None:
                return None
            a, b = factor * known[0], factor * known[1]
            low, high = low + min(a, b), high + max(a, b)
        return low, high

    def always_true_for(self, atom: Expr, ranges: Mapping[Expr, Interval]) -> Interval | None:
        """The values of `atom`, within its range, for which the guard holds whatever the other atoms are.

        None if that is unknown; an interval with low > high if there are none.
        """
        factor = dict(self.terms).get(atom)
        rest = self.bounds(ranges, without=atom)
        if factor is None or rest is None or atom not in ranges:
            return None
        return _below(-rest[1], factor, ranges[atom])

    def maybe_true_for(self, atom: Expr, ranges: Mapping[Expr, Interval]) -> Interval | None:
        """The values of `atom`, within its range, for which the guard may hold; None and empty as above."""
        factor = dict(self.terms).get(atom)
        rest = self.bounds(ranges, without=atom)
        if factor is None or rest is None or atom not in ranges:
            return None
        return _below(-rest[0], factor, ranges[atom])


def _below(limit: int, factor: int, within: Interval) -> Interval:
    """The values x of `within` with factor * x <= limit."""
    low, high = within
    return (low, min(high, limit // factor)) if factor > 0 else (max(low, -(limit // -factor)), high)


def read_guard(condition: Expr) -> Guard | None:
    """`condition` as a guard, or None if it is no comparison (<, <=, >, >=) of integers."""
    if not isinstance(condition, (e.LT, e.LE, e.GT, e.GE)) or not condition.a.dtype.is_int:
        return None
    swap = isinstance(condition, (e.GT, e.GE))
    sign = -1 if swap else 1
    terms: dict[Expr, int] = {}
    constant = _collect(condition.a, sign, terms) + _collect(condition.b, -sign, terms)
    if isinstance(condition, (e.LT, e.GT)):
        constant += 1
    kept = tuple([(atom, factor) for atom, factor in terms.items() if factor])
    return Guard(kept, constant, condition)


@nested
def _collect(x: Expr, factor: int, terms: dict[Expr, int]) -> int:
    """Adds factor * `x` to `terms`; returns its constant part."""
    if isinstance(x, IntImm):
        return factor * x.value
    if isinstance(x, e.Add):
        return _collect(x.a, factor, terms) + _collect(x.b, factor, terms)
    if isinstance(x, e.Sub):
        return _collect(x.a, factor, terms) + _collect(x.b, -factor, terms)
    if isinstance(x, e.Mul) and isinstance(x.b, IntImm):
        return _collect(x.a, factor * x.b.value, terms)
    if isinstance(x, e.Mul) and isinstance(x.a, IntImm):
        return _collect(x.b, factor * x.a.value, terms)
    terms[x] = terms.get(x, 0) + factor
    return 0


@nested
def split_conjunction(condition: Expr) -> list[Expr]:
    """The conditions joined by `And`, left to right."""
    if isinstance(condition, e.And):
        return split_conjunction(condition.a) + split_conjunction(condition.b)
    return [condition]
