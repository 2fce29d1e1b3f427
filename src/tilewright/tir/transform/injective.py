"""Injectivity of an index over the loops around it: no two iterations have the same value."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import Expr, IntImm, Ramp, Var
from tilewright.tir.visitor import collect


def injective(index: Expr, ranges: Mapping[Var, int]) -> bool:
    """True if any two points of `ranges` (from 0, by size) are known to give different values of `index`.

    Its terms must be products of the variables whose steps exceed what all smaller ones reach together. Of a vector of
    positions, as loops of lanes leave, all elements must differ.
    """
    lanes: list[tuple[int, int]] = []
    if isinstance(index, Ramp):
        if not isinstance(index.stride, IntImm):
            return False
        lanes, index = [(abs(index.stride.value), index.lanes)], index.base
    form = Analyzer().linear(index)
    terms = [(abs(step), ranges[atom]) for atom, step in form.terms.items() if isinstance(atom, Var) and atom in ranges]
    inner = [v for atom in form.terms if atom not in ranges for v in collect(atom, Var) if v in ranges]
    if inner or len(terms) != sum(1 for n in ranges.values() if n > 1):
        return False
    terms = sorted(terms + lanes)
    reach = 0
    for step, size in terms:
        if step <= reach:
            return False
        reach += step * (size - 1)
    return True
