"""Whether an index never has the same value at two points of the loops around it."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.arith.analyzer import Analyzer
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import collect


def injective(index: Expr, ranges: Mapping[Var, int]) -> bool:
    """True if any two points of `ranges` (from 0, by size) are known to give different values of `index`.

    Its terms must be products of the variables whose steps exceed what all smaller ones reach together.
    """
    form = Analyzer().linear(index)
    terms = sorted(
        (abs(step), ranges[atom]) for atom, step in form.terms.items() if isinstance(atom, Var) and atom in ranges
    )
    inner = [v for atom in form.terms if atom not in ranges for v in collect(atom, Var) if v in ranges]
    if inner or len(terms) != sum(1 for n in ranges.values() if n > 1):
        return False
    reach = 0
    for step, size in terms:
        if step <= reach:
            return False
        reach += step * (size - 1)
    return True
