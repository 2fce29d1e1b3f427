"""Systems of conditions on integer variables, and changes from one set of variables to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.linear import Linear
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import uses_var


@dataclass(frozen=True)
class IntConstraints:
    """The points at which every variable lies in its range and every relation holds."""

    variables: tuple[Var, ...]
    ranges: Mapping[Var, Range] = field(default_factory=dict)
    relations: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class IntConstraintsTransform:
    """Two systems and the maps between their points: each variable of one as an expression over the other's."""

    source: IntConstraints
    target: IntConstraints
    source_to_target: Mapping[Var, Expr]
    target_to_source: Mapping[Var, Expr]


def split_terms(form: Linear, variables: Sequence[Var]) -> tuple[list[int], Linear] | None:
    """(coefficients, rest) with `form` = sum(coefficient * variable) + rest, where rest is free of the variables.

    None where a variable stands inside an atom, such as `x // 2` or `x * n`.
    """
    wanted = set(variables)
    rest = Linear({atom: k for atom, k in form.terms.items() if atom not in wanted}, form.constant)
    if any(uses_var(atom, wanted.__contains__) for atom in rest.terms):
        return None
    return [form.terms.get(v, 0) for v in variables], rest


def range_conditions(ranges: Mapping[Var, Range]) -> list[Expr]:
    """`first <= v` and `v < first + extent` for each variable."""
    conditions: list[Expr] = []
    for variable, span in ranges.items():
        conditions += [op.greater_equal(variable, span.min), op.less(variable, span.min + span.extent)]
    return conditions


def unknowns(solver: str, variables: Sequence[Var]) -> tuple[tuple[Var, ...], str]:
    """The variables that `solver` is to solve for, and the one dtype of them all.

    Raises ValueError where there are none, TypeError where they differ or are no integers of 32 or 64 bits.
    """
    if not variables:
        raise ValueError(f"{solver}: name at least one variable to solve for")
    dtypes = sorted({str(v.dtype) for v in variables})
    if len(dtypes) > 1 or dtypes[0] not in ("int32", "int64"):
        raise TypeError(f"variables of {', '.join(dtypes)}: a system takes variables of int32, or of int64, only")
    return tuple(variables), dtypes[0]


def is_index(x: Expr) -> bool:
    """True for a comparison of two index expressions."""
    return isinstance(x, e.CompareExpr) and x.a.dtype in ("int32", "int64")
