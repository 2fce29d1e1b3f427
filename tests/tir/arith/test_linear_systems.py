"""Linear equations and inequalities over the integers: the same points before and after solving."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import UnsupportedError
from tilewright.tir import op
from tilewright.tir.arith import (
    IntConstraints,
    Range,
    deskew_ranges,
    solve_linear_equations,
    solve_linear_inequalities,
)
from tilewright.tir.arith.linear_equations import smith_normal_form
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Expr, Var

X, Y, Z, N = Var("x"), Var("y"), Var("z"), Var("n")
VARIABLES = (X, Y, Z)
POINTS = random.Random(7).sample(list(itertools.product(range(-4, 5), repeat=3)), 60)
COEFFICIENTS = st.lists(st.integers(-4, 4), min_size=4, max_size=4)
COMPARISONS = (op.less, op.less_equal, op.greater, op.greater_equal, op.eq)


def linear(row: list[int]) -> Expr:
    return row[0] * X + row[1] * Y + row[2] * Z + row[3]


def holds(conditions: tuple[Expr, ...] | list[Expr], env: dict[Var, int]) -> bool:
    return all(evaluate(c, env) for c in conditions)


def inside(system: IntConstraints, env: dict[Var, int]) -> bool:
    """True if the point is one of the system's."""
    spans = [(env[v], evaluate(r.min, env), evaluate(r.extent, env)) for v, r in system.ranges.items()]
    return all(low <= value < low + extent for value, low, extent in spans) and holds(system.relations, env)


def test_smith_normal_form_of_random_matrices() -> None:
    rng = random.Random(1)
    for _ in range(200):
        rows, columns = rng.randint(0, 4), rng.randint(1, 4)
        a = [[rng.randint(-6, 6) for _ in range(columns)] for _ in range(rows)]
        u, d, v, inverse = smith_normal_form(a, columns)
        form = product(product(u, a, columns), v, columns)
        assert all(form[i][j] == (d[i] if i == j < len(d) else 0) for i in range(rows) for j in range(columns))
        assert all(k > 0 for k in d)
        assert product(v, inverse, columns) == [[int(i == j) for j in range(columns)] for i in range(columns)]


def product(a: list[list[int]], b: list[list[int]], columns: int) -> list[list[int]]:
    return [[sum(p * b[k][j] for k, p in enumerate(row)) for j in range(columns)] for row in a]


@settings(max_examples=40, deadline=None)
@given(st.lists(COEFFICIENTS, min_size=1, max_size=3), st.booleans())
def test_the_solutions_of_equations_are_the_images_of_the_free_variables(rows: list[list[int]], ranged: bool) -> None:
    equations = [op.eq(linear(row), N * 2) for row in rows]
    ranges = {X: Range(-2, 5), Y: Range(-3, 7), Z: Range(0, 4)} if ranged else {}
    found = solve_linear_equations(equations, VARIABLES, ranges)
    for n in (0, 1, 3):
        for point in POINTS:
            env = {**dict(zip(VARIABLES, point, strict=True)), N: n}
            free = {v: int(evaluate(value, env)) for v, value in found.target_to_source.items()}
            back = tuple(evaluate(found.source_to_target[v], {**free, N: n}) for v in VARIABLES)
            assert inside(found.source, env) == (inside(found.target, {**free, N: n}) and back == point)
        for values in itertools.product(range(-3, 4), repeat=min(len(found.target.variables), 2)):
            if len(values) == len(found.target.variables):
                env = {**dict(zip(found.target.variables, values, strict=True)), N: n}
                image = {v: int(evaluate(x, env)) for v, x in found.source_to_target.items()}
                assert inside(found.source, {**image, N: n}) == inside(found.target, env)


def test_one_equation_spelled_out() -> None:
    found = solve_linear_equations([op.eq(X + 2 * Y, 4)], [X, Y], {X: Range(0, 5), Y: Range(0, 3)})
    (free,) = found.target.variables
    assert [found.source_to_target[X], found.source_to_target[Y]] == [4 - free * 2, free]
    assert solve_linear_equations([op.eq(2 * X, 3)], [X]).target.relations == (op.const(False, "bool"),)


def test_an_equation_that_is_not_linear_is_kept() -> None:
    found = solve_linear_equations([op.eq(X, 4), op.eq(Y % 2, X - 3)], [X, Y])
    (free,) = found.target.variables
    assert found.target.relations == (op.eq(free % 2, 1),)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(COEFFICIENTS, st.integers(0, 4)), min_size=1, max_size=5), st.booleans())
def test_bounds_hold_at_exactly_the_points_of_the_inequalities(rows: list[tuple[list[int], int]], boxed: bool) -> None:
    system = [COMPARISONS[kind](linear(row), N) for row, kind in rows]
    ranges = {X: Range(-2, 5), Y: Range(-3, 7), Z: Range(0, 4)} if boxed else {}
    solved = solve_linear_inequalities(system, VARIABLES, ranges)
    moved = deskew_ranges(system, VARIABLES, ranges)
    for n in (0, 2):
        for point in POINTS:
            env = {**dict(zip(VARIABLES, point, strict=True)), N: n}
            wanted = inside(IntConstraints(VARIABLES, ranges, tuple(system)), env)
            assert holds(solved.relations(), env) == wanted
            shifted = {v: int(evaluate(x, env)) for v, x in moved.target_to_source.items()}
            assert inside(moved.target, {**shifted, N: n}) == wanted
            assert tuple(evaluate(moved.source_to_target[v], {**shifted, N: n}) for v in VARIABLES) == point


def test_bounds_mention_later_variables_only() -> None:
    solved = solve_linear_inequalities([op.all(op.less_equal(0, X), op.less_equal(X, Y), op.less(Y, 8))], [X, Y])
    assert solved.bounds[X].lower == (op.const(0),)
    assert solved.bounds[X].upper == (Y,)
    assert solved.bounds[Y].upper == (op.const(7),)
    span = solved.bounds[Y].to_range()
    assert span == Range(0, 8)


def test_derived_bounds_are_rounded_to_whole_numbers() -> None:
    solved = solve_linear_inequalities([op.less_equal(2 * X, 2 * Y - 1), op.greater_equal(X, 0)], [X, Y])
    assert solved.bounds[Y].lower == (op.const(1),)


def test_a_contradiction_is_false_and_what_is_not_linear_is_kept() -> None:
    assert solve_linear_inequalities([op.less(X, 2), op.greater(X, 5)], [X]).rest == (op.const(False, "bool"),)
    kept = op.less(X * X, 9)
    assert solve_linear_inequalities([kept, op.ne(X, 1)], [X]).rest == (kept, op.ne(X, 1))


def test_inequalities_floats_and_too_large_systems_are_refused() -> None:
    with pytest.raises(TypeError, match="is no equation of integers"):
        solve_linear_equations([op.less(X, 1)], [X])
    with pytest.raises(TypeError, match="variables of int32, int64: a system takes"):
        solve_linear_inequalities([op.less(X, 1)], [X, Var("w", "int64")])
    for solve in (solve_linear_equations, solve_linear_inequalities):
        with pytest.raises(ValueError, match="name at least one variable"):
            solve([op.eq(X, 1)], [])
    many = [Var(f"v{i}") for i in range(12)]
    rng = random.Random(0)
    dense = [
        op.less_equal(sum((rng.randint(-9, 9) * v for v in many), op.const(0)), rng.randint(5, 20)) for _ in range(24)
    ]
    with pytest.raises(UnsupportedError, match="solve for fewer variables than the 12"):
        solve_linear_inequalities(dense, many)
