"""subspace_divide, checked by running the loops."""

from __future__ import annotations

import random

import pytest

from tests.tir.arith.test_iter_map import DOMAIN, I, J, K, N, index, points
from tilewright.tir import op
from tilewright.tir.arith import IterMapLevel, Range, detect_iter_map, normalize_iter_map_to_expr, subspace_divide
from tilewright.tir.evaluate import evaluate
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import collect_vars


def fusion(rng: random.Random, variables: list[Var]) -> Expr:
    """The variables fused in some order, then one digit of the fusion or all of it."""
    total, size = N * rng.randint(0, 1), 1
    for v in variables:
        total = (v - DOMAIN[v].min) * size + total
        size *= DOMAIN[v].extent.value
    low = rng.choice([1, 1, 2, 4, 8])
    return rng.choice([total * 3, total, total // low, total % (low * 4)])


def test_random_divisions_are_the_indices_again() -> None:
    rng, divided, joined = random.Random(1), 0, 0
    for _ in range(1500):
        variables = rng.sample([I, J, K], rng.randint(1, 3))
        domain = {v: DOMAIN[v] for v in variables}
        inner = set(rng.sample(variables, rng.randint(0, len(variables))))
        fused = rng.random() < 0.5
        indices = [fusion(rng, variables)] if fused else [index(rng, variables, 2) for _ in range(rng.randint(1, 2))]
        predicate = rng.choice([None, op.less(J, 6)]) if J in domain else None
        found = subspace_divide(indices, domain, inner, predicate)
        assert bool(found.indices) != bool(found.errors)
        for part, x in zip(found.indices, indices, strict=False):
            made = [normalize_iter_map_to_expr(s) for s in (part.outer, part.inner)]
            assert not inner & collect_vars(made[0]).keys()
            assert not (domain.keys() - inner) & collect_vars(made[1]).keys()
            divided, joined = divided + 1, joined + (bool(part.outer.args) and bool(part.inner.args))
            for env in points(domain, predicate):
                outer, rest = (evaluate(m, env) for m in made)
                assert outer * part.extent + rest == evaluate(x, env) == evaluate(part.to_expr(), env)
                assert 0 <= rest - evaluate(part.inner.base, env) < max(part.extent, 1)
        if not found.indices and not inner:
            assert detect_iter_map(indices, domain, predicate).errors
    assert divided > 300 and joined > 20


def test_the_predicate_is_divided_too() -> None:
    found = subspace_divide([I * 8 + J], {I: Range(0, 4), J: Range(0, 8)}, {J}, op.all(op.less(I, 3), op.less(J, 8)))
    assert repr(found.outer_predicate) == "i < 3" and repr(found.inner_predicate) == "j < 8"
    (part,) = found.indices
    assert part.extent == 8


@pytest.mark.parametrize(
    ("x", "inner", "predicate", "message"),
    [
        (I * 8 + J, {J}, op.less(I * 8 + J, 30), "joins inner and outer iterators"),
        (I * 8 + J, {I}, None, "the inner iterator of i stands above an outer one"),
        ((I * 6 + J) // 4, {J}, op.less(J, 6), "takes digits of a fusion of inner and outer iterators"),
        (I + J, {J}, None, "the scale of j is 1 where a fusion needs 4"),
    ],
)
def test_says_why_there_is_no_division(x, inner, predicate, message) -> None:
    (error,) = subspace_divide([x], {I: Range(0, 4), J: Range(0, 8)}, inner, predicate, IterMapLevel.SURJECTIVE).errors
    assert message in error
