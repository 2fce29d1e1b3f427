"""Injectivity of an index over the loops around it: no two iterations have the same value."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import Expr, FloorDiv, FloorMod, IntImm, Ramp, Var
from tilewright.tir.visitor import collect


def injective(index: Expr, ranges: Mapping[Var, int]) -> bool:
    """True if any two points of `ranges` (from 0, by size) are known to have different values of `index`.

    Its terms must be products of the variables whose steps exceed what all smaller ones reach together; a variable may
    be there as its quotient and its remainder by one number. Of a vector of positions, as loops of lanes leave, all
    elements must differ.
    """
    lanes: list[tuple[int, int]] = []
    if isinstance(index, Ramp):
        if not isinstance(index.stride, IntImm):
            return False
        lanes, index = [(abs(index.stride.value), index.lanes)], index.base
    form = Analyzer().linear(index)
    terms = [(abs(step), ranges[atom]) for atom, step in form.terms.items() if isinstance(atom, Var) and atom in ranges]
    digits = _digits({atom: abs(step) for atom, step in form.terms.items() if atom not in ranges}, ranges)
    if digits is None or len(terms) + len(digits) // 2 != sum(1 for n in ranges.values() if n > 1):
        return False
    terms += digits
    terms = sorted(terms + lanes)
    reach = 0
    for step, size in terms:
        if step <= reach:
            return False
        reach += step * (size - 1)
    return True


def _digits(atoms: Mapping[Expr, int], ranges: Mapping[Var, int]) -> list[tuple[int, int]] | None:
    """Steps and sizes of quotients and remainders of variables, both of each; None for other atoms with variables."""
    found: dict[tuple[Var, int], dict[type, int]] = {}
    for atom, step in atoms.items():
        part = _part(atom)
        if part is not None and part[0] in ranges:
            found.setdefault(part, {})[type(atom)] = step
        elif any(v in ranges for v in collect(atom, Var)):
            return None
    if len({var for var, _ in found}) < len(found) or any(len(parts) < 2 for parts in found.values()):
        return None
    sizes = {part: (-(-ranges[part[0]] // part[1]), min(part[1], ranges[part[0]])) for part in found}
    return [digit for part, steps in found.items() for digit in zip((steps[FloorDiv], steps[FloorMod]), sizes[part])]


def _part(atom: Expr) -> tuple[Var, int] | None:
    """The variable and the number of which `atom` is the quotient or the remainder; None for another expression."""
    if not isinstance(atom, FloorDiv | FloorMod) or not isinstance(atom.a, Var) or not isinstance(atom.b, IntImm):
        return None
    return (atom.a, atom.b.value) if atom.b.value > 0 else None
