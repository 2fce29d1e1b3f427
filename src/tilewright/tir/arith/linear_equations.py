"""Systems of linear equations over the integers, solved by the Smith normal form of their matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.constraints import (
    IntConstraints,
    IntConstraintsTransform,
    is_index,
    range_conditions,
    split_terms,
    unknowns,
)
from tilewright.tir.arith.int_set import eval_interval
from tilewright.tir.arith.linear import Linear
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import substitute

Matrix = list[list[int]]


def solve_linear_equations(
    equations: Sequence[Expr], variables: Sequence[Var], ranges: Mapping[Var, Range] | None = None
) -> IntConstraintsTransform:
    """The integer points that satisfy `equations`, as a system over as few free variables `n0`, `n1`, … as there are.

    `x + 2*y == 4` becomes x = 4 - 2*n0, y = n0 (up to the choice of n0). Exact over the integers: a point satisfies
    the equations and `ranges` if and only if it is the image of a point of the target, whose relations say what the
    free variables and the other names must fulfil: that a quotient is whole, that the old ranges are kept, and every
    equation that is not linear with constant coefficients, rewritten. A relation that is false stands as `False`.
    """
    (variables, dtype), ranges, analyzer = unknowns("solve_linear_equations", variables), dict(ranges or {}), Analyzer()
    rows, values, kept = _system(equations, variables, analyzer)
    left, diagonal, right, right_inverse = smith_normal_form(rows, len(variables))
    relations: list[Expr] = []
    solved: list[Expr] = []
    for row, factors in enumerate(left):
        total = Linear({}, 0)
        for factor, value in zip(factors, values, strict=True):
            total = total.plus(value, factor)
        value_expr, d = total.to_expr(dtype), diagonal[row] if row < len(diagonal) else 0
        relations.append(op.eq(value_expr, 0) if d == 0 else op.eq(op.floormod(value_expr, d), 0))
        if d:
            solved.append(op.floordiv(value_expr, d))
    free = tuple(Var(f"n{i}", dtype) for i in range(len(variables) - len(solved)))
    forward = {v: analyzer.simplify(_dot(right[i], [*solved, *free], dtype)) for i, v in enumerate(variables)}
    backward = {
        v: analyzer.simplify(_dot(right_inverse[len(solved) + i], list(variables), dtype)) for i, v in enumerate(free)
    }
    old = [substitute(x, forward) for x in [*kept, *range_conditions(ranges)]]
    new_ranges = _ranges(backward, ranges, analyzer)
    target = IntConstraints(free, new_ranges, _simplified([*relations, *old], new_ranges))
    source = IntConstraints(variables, ranges, tuple(equations))
    return IntConstraintsTransform(source, target, forward, backward)


def _system(
    equations: Sequence[Expr], variables: Sequence[Var], analyzer: Analyzer
) -> tuple[Matrix, list[Linear], list[Expr]]:
    """(rows, right-hand sides, what is not linear)."""
    rows: Matrix = []
    values: list[Linear] = []
    kept: list[Expr] = []
    for equation in equations:
        if not (isinstance(equation, e.EQ) and is_index(equation)):
            raise TypeError(f"solve_linear_equations: {equation!r} is no equation of integers; write op.eq(a, b)")
        form = analyzer.linear(equation.a).minus(analyzer.linear(equation.b))
        found = split_terms(form, variables)
        if found is None:
            kept.append(equation)
        else:
            rows.append(found[0])
            values.append(found[1].times(-1))
    return rows, values, kept


def _ranges(backward: Mapping[Var, Expr], ranges: Mapping[Var, Range], analyzer: Analyzer) -> dict[Var, Range]:
    """For the free variables that follow from old ones whose ranges are known: all values they may take."""
    found = {}
    for free, value in backward.items():
        used = {v for v in Linear.of(value).terms if isinstance(v, Var)}
        span = eval_interval(value, {v: ranges[v] for v in used & ranges.keys()}, analyzer).to_range()
        if used <= ranges.keys() and span is not None:
            found[free] = Range(analyzer.simplify(span.min), analyzer.simplify(span.extent))
    return found


def _simplified(relations: Sequence[Expr], ranges: Mapping[Var, Range]) -> tuple[Expr, ...]:
    """The relations that do not follow from the ranges, each once."""
    known = Analyzer()
    for variable, span in ranges.items():
        known.bind(variable, span)
    simple = dict.fromkeys(known.simplify(x) for x in relations)
    return tuple(x for x in simple if not op.is_const(x, 1))


def _dot(factors: Sequence[int], values: Sequence[Expr], dtype: str) -> Expr:
    total = Linear({}, 0)
    for factor, value in zip(factors, values, strict=True):
        total = total.plus(Linear.of(value), factor)
    return total.to_expr(dtype)


# ------------------------------------------------------------------------------------------ the normal form
def smith_normal_form(matrix: Matrix, columns: int) -> tuple[Matrix, list[int], Matrix, Matrix]:
    """(U, d, V, inverse of V) with U * matrix * V zero but for d on the diagonal; U and V have determinant 1 or -1.

    `d` holds the positive numbers only, so its length is the rank. That each divides the next, which the form's
    definition requires too, is not needed to solve equations and not established. `columns` tells the width where
    there is no row. Integer row and column operations (Cohen, A Course in Computational Algebraic Number Theory, 2.4).
    """
    a = [list(row) for row in matrix]
    u, v, inverse = _identity(len(a)), _identity(columns), _identity(columns)
    diagonal: list[int] = []
    for step in range(min(len(a), columns)):
        position = _smallest(a, step)
        if position is None:
            break
        while position is not None:
            _exchange(a, u, v, inverse, step, position)
            position = _reduce(a, u, v, inverse, step)
        if a[step][step] < 0:
            a[step], u[step] = [-k for k in a[step]], [-k for k in u[step]]
        diagonal.append(a[step][step])
    return u, diagonal, v, inverse


def _identity(size: int) -> Matrix:
    return [[int(i == j) for j in range(size)] for i in range(size)]


def _smallest(a: Matrix, step: int) -> tuple[int, int] | None:
    """The position of the nonzero entry of least magnitude, from (step, step) on."""
    positions = [(abs(k), i, j) for i, row in enumerate(a) for j, k in enumerate(row) if k and i >= step and j >= step]
    return min(positions)[1:] if positions else None


def _exchange(a: Matrix, u: Matrix, v: Matrix, inverse: Matrix, step: int, position: tuple[int, int]) -> None:
    i, j = position
    a[step], a[i], u[step], u[i] = a[i], a[step], u[i], u[step]
    for row in (*a, *v):
        row[step], row[j] = row[j], row[step]
    inverse[step], inverse[j] = inverse[j], inverse[step]


def _reduce(a: Matrix, u: Matrix, v: Matrix, inverse: Matrix, step: int) -> tuple[int, int] | None:
    """Take multiples of the pivot's row and column off the others; where a remainder is left that is to be pivot."""
    pivot = a[step][step]
    for i in range(step + 1, len(a)):
        q = a[i][step] // pivot
        a[i] = [x - q * y for x, y in zip(a[i], a[step], strict=True)]
        u[i] = [x - q * y for x, y in zip(u[i], u[step], strict=True)]
    for j in range(step + 1, len(v)):
        q = a[step][j] // pivot
        for row in (*a, *v):
            row[j] -= q * row[step]
        inverse[step] = [x + q * y for x, y in zip(inverse[step], inverse[j], strict=True)]
    left = [(abs(a[i][step]), i, step) for i in range(step + 1, len(a)) if a[i][step]]
    left += [(abs(a[step][j]), step, j) for j in range(step + 1, len(v)) if a[step][j]]
    return min(left)[1:] if left else None
