"""Affine iterator maps, their inverse and the regions that follow, checked by running the loops."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from tilewright.tir import op
from tilewright.tir.arith import (
    IterMapLevel,
    Range,
    detect_iter_map,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    inverse_affine_iter_map,
    iter_map_simplify,
)
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Expr, Var

I, J, K, N = Var("i"), Var("j"), Var("k"), Var("n")
A, B, C = Var("a"), Var("b"), Var("c")
DOMAIN = {I: Range(0, 4), J: Range(0, 8), K: Range(2, 3)}
SURJECTIVE, BIJECTIVE = IterMapLevel.SURJECTIVE, IterMapLevel.BIJECTIVE


def points(domain: dict[Var, Range], predicate: Expr | None = None) -> list[dict[Var, int]]:
    spans = [range(op.as_const(r.min), op.as_const(r.min) + op.as_const(r.extent)) for r in domain.values()]  # type: ignore[operator,arg-type]
    envs = [{**dict(zip(domain, values, strict=True)), N: 5} for values in itertools.product(*spans)]
    return [env for env in envs if predicate is None or evaluate(predicate, env)]


def values(indices: list[Expr], envs: list[dict[Var, int]]) -> list[tuple[int, ...]]:
    return [tuple(int(evaluate(x, env)) for x in indices) for env in envs]


def is_product(found: set[tuple[int, ...]]) -> bool:
    """True if every combination of the values each index takes occurs."""
    return found == set(itertools.product(*[sorted(set(column)) for column in zip(*found, strict=True)]))


def index(rng: random.Random, variables: list[Var], depth: int) -> Expr:
    if depth == 0:
        return rng.choice([*variables, *variables, N])
    inner, c = index(rng, variables, depth - 1), rng.choice([1, 2, 3, 4, 8, 16])
    return {
        "add": lambda: inner * c + index(rng, variables, depth - 1),
        "div": lambda: inner // c,
        "mod": lambda: inner % c,
        "mul": lambda: inner * c - rng.randint(0, 3),
    }[rng.choice(["add", "add", "div", "mod", "mul"])]()


def test_random_maps_keep_what_they_promise() -> None:
    rng, affine = random.Random(0), {SURJECTIVE: 0, BIJECTIVE: 0}
    for _ in range(1500):
        variables = rng.sample([I, J, K], rng.randint(1, 3))
        domain = {v: DOMAIN[v] for v in variables}
        indices = [index(rng, variables, rng.randint(0, 3)) for _ in range(rng.randint(1, 2))]
        predicate = rng.choice([None, None, op.less(I * 8 + J, rng.choice([12, 30])), op.less(J, 6)])
        if predicate is not None and {I, J} - domain.keys():
            predicate = None
        envs = points(domain, predicate)
        expected = values(indices, envs)
        for level in IterMapLevel:
            found = detect_iter_map(indices, domain, predicate, level)
            assert bool(found.indices) != bool(found.errors)
            if not found.indices:
                continue
            assert values([s.to_expr() for s in found.indices], envs) == expected
            if level != IterMapLevel.NO_CHECK:
                affine[level] += 1
                assert is_product(set(expected))
            if level == BIJECTIVE:
                assert len(set(expected)) == len(expected)
                back = inverse_affine_iter_map(found.indices, [A, B][: len(indices)])
                for env, outputs in zip(envs, expected, strict=True):
                    given = {**dict(zip((A, B), outputs, strict=False)), N: 5}
                    assert {v: evaluate(x, given) for v, x in back.items()} == {v: env[v] for v in back}
                    assert all(v in back or op.as_const(r.extent) == 1 for v, r in domain.items())
    assert min(affine.values()) > 40


def tiled(order: list[int], rng: random.Random) -> tuple[list[Expr], dict[Var, Range]]:
    """The indices of a nest of two loops (24, 10) after random splits, a fusion and a change of order."""
    f, g = rng.choice([2, 3, 4, 6]), rng.choice([2, 5])
    whole = [24 // f, f, 10 // g, g]
    parts = [Var(f"t{i}") for i in range(4)]
    fused, outer = Var("fused"), {parts[i]: Range(0, whole[i]) for i in order[2:]}
    a, b = order[:2]
    split = {parts[a]: fused // whole[b], parts[b]: fused % whole[b]}
    value = [split.get(p, p) for p in parts]
    return [value[0] * f + value[1], value[2] * g + value[3]], {fused: Range(0, whole[a] * whole[b]), **outer}


def test_loops_split_fused_and_reordered_stay_bijective() -> None:
    rng = random.Random(3)
    for order in itertools.permutations(range(4)):
        indices, domain = tiled(list(order), rng)
        found = detect_iter_map(indices, domain, level=BIJECTIVE)
        assert not found.errors
        back = inverse_affine_iter_map(found.indices, [A, B])
        for env in points(domain):
            outputs = {A: int(evaluate(indices[0], env)), B: int(evaluate(indices[1], env))}
            assert all(evaluate(back[v], outputs) == env[v] for v in domain)


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        ([I + J], "i \\+ j: the scale of j is 1 where a fusion needs 4"),
        ([I * 16 + J], "the scale of i is 16 where a fusion needs 8"),
        ([I, I], "the splits of i overlap or leave a gap"),
        ([J // 2, J % 4], "the splits of j overlap or leave a gap"),
        ([J // 3], "j // 3: 3 does not divide 8 \\* 1 evenly"),
        ([(J + 1) // 2], "is no multiple of 2"),
        ([I * J], "i \\* j is neither a multiple, a quotient nor a remainder"),
    ],
)
def test_what_is_no_split_or_fusion_is_told(indices: list[Expr], message: str) -> None:
    (error,) = detect_iter_map(indices, DOMAIN).errors
    assert re.search(message, error)


def test_bijective_asks_for_more_than_surjective() -> None:
    for indices, word in (
        ([J // 2, I, K], "distinguished"),
        ([J % 4, I, K], "distinguished"),
        ([I, J], "depends on k"),
    ):
        assert detect_iter_map(indices, DOMAIN, level=SURJECTIVE).indices
        (error,) = detect_iter_map(indices, DOMAIN, level=BIJECTIVE).errors
        assert word in error or "leave a gap" in error


def test_a_predicate_narrows_the_fused_iterator() -> None:
    fused = I * 8 + J
    found = detect_iter_map([fused // 5, fused % 5], DOMAIN, op.less(fused, 30))
    assert [s.args[0].extent for s in found.indices] == [6, 5]
    domain = {I: DOMAIN[I], J: DOMAIN[J]}
    for indices, predicate, message in (
        ([I, J], op.less(fused, 30), "its parts are used apart"),
        ([I], op.greater_equal(fused, 3), "the scale of i is -8"),
        ([I], op.eq(I, J), "no upper bound of a fusion"),
        ([I], op.less(I, N), "no constant bound"),
        ([I], op.less(fused, N - N), "no upper bound"),
        ([I], op.less(J // 2, 3), "bounds a part of an iterator"),
    ):
        (error,) = detect_iter_map(indices, domain, predicate).errors
        assert message in error
    (error,) = detect_iter_map([I], {I: Range(0, N)}).errors
    assert "must be a constant range" in error


def test_simplify_joins_the_digits_of_one_iterator() -> None:
    assert iter_map_simplify([J // 4 * 4 + J % 4, (I * 8 + J) // 4 % 2], DOMAIN) == [J, J // 4]
    assert iter_map_simplify([I * J + 0], DOMAIN) == [I * J]


def test_indices_of_64_bits_stay_so() -> None:
    i, j, a = (Var(name, "int64") for name in "ija")
    found = detect_iter_map([i * 4 + j], {i: Range(op.const(0, "int64"), 8), j: Range(op.const(0, "int64"), 4)})
    back = inverse_affine_iter_map(found.indices, [a])
    assert (back[i], back[j]) == (a // 4, a % 4)
    assert found.indices[0].to_expr().dtype == "int64"


def test_misuse_of_the_inverse() -> None:
    found = detect_iter_map([J // 4, J % 4], {J: DOMAIN[J]}, level=BIJECTIVE)
    with pytest.raises(ValueError, match="2 indices and 1 outputs"):
        inverse_affine_iter_map(found.indices, [A])
    with pytest.raises(ValueError, match="leave a gap"):
        inverse_affine_iter_map(found.indices[:1], [A])
    loose = detect_iter_map([I + J], DOMAIN, level=IterMapLevel.NO_CHECK)
    with pytest.raises(ValueError, match="a sum that was not fused"):
        inverse_affine_iter_map(loose.indices, [A])


def touched(region: list[Range], envs: list[dict[Var, int]]) -> set[tuple[int, ...]]:
    spans = lambda env: [  # noqa: E731
        range(int(evaluate(r.min, env)), int(evaluate(r.min, env)) + int(evaluate(r.extent, env))) for r in region
    ]
    return {point for env in envs for point in itertools.product(*spans(env))}


def test_regions_are_what_the_loops_touch() -> None:
    rng, exact = random.Random(5), 0
    for _ in range(400):
        variables = rng.sample([I, J, K], rng.randint(1, 3))
        domain = {v: DOMAIN[v] for v in variables}
        region = [Range(index(rng, variables, rng.randint(0, 2)), rng.randint(1, 4)) for _ in range(rng.randint(1, 2))]
        seen = touched(region, points(domain))
        strict = estimate_region_strict_bound(region, domain)
        wide = estimate_region_upper_bound(region, domain)
        if strict is not None:
            exact += 1
            boxes = [[int(evaluate(op.convert(end), {N: 5})) for end in interval] for interval in strict]
            assert set(itertools.product(*[range(low, high + 1) for low, high in boxes])) == seen
            assert estimate_region_lower_bound(region, domain) == strict
        for dimension, interval in enumerate(wide):
            column = [point[dimension] for point in seen]
            assert interval.min is None or evaluate(interval.min, {N: 5}) <= min(column)
            assert interval.max is None or evaluate(interval.max, {N: 5}) >= max(column)
    assert exact > 60


def test_a_region_with_holes_has_no_exact_bound() -> None:
    assert estimate_region_strict_bound([Range(I * 4, 2)], DOMAIN) is None
    assert estimate_region_strict_bound([Range(I, 1), Range(I, 1)], DOMAIN) is None
    low, high = estimate_region_upper_bound([Range(I * 4, 2)], DOMAIN)[0]
    assert (low, high) == (op.const(0), op.const(13))
