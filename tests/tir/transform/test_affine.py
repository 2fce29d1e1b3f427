"""Guards: reading comparisons, and which values of an atom make them certain, against enumeration."""

from __future__ import annotations

import itertools
import random

import pytest

from tilewright.tir import op
from tilewright.tir.expr import Var
from tilewright.tir.transform.affine import read_guard, split_conjunction

I, J, K = Var("i"), Var("j"), Var("k")


def holds(guard, values):
    return sum(factor * values[atom] for atom, factor in guard.terms) + guard.constant <= 0


@pytest.mark.parametrize(
    ("condition", "meaning"),
    [
        (I * 4 + J < 10, lambda i, j: i * 4 + j < 10),
        (I * 4 - J <= 3, lambda i, j: i * 4 - j <= 3),
        (5 - I > J, lambda i, j: 5 - i > j),
        (2 * (I - J) >= -3, lambda i, j: 2 * (i - j) >= -3),
    ],
)
def test_guard_means_what_the_condition_means(condition, meaning):
    guard = read_guard(condition)
    for i, j in itertools.product(range(-6, 7), repeat=2):
        assert holds(guard, {I: i, J: j}) == meaning(i, j)


def test_intervals_are_exact_on_random_guards():
    rng = random.Random(3)
    for _ in range(300):
        a, b, c = rng.choice([-3, -2, -1, 1, 2, 5]), rng.randint(-4, 4), rng.randint(-20, 20)
        guard = read_guard(I * a + J * b < c)
        ranges = {I: (rng.randint(-3, 0), rng.randint(1, 6)), J: (0, rng.randint(0, 5))}
        span = [range(low, high + 1) for low, high in ranges.values()]
        always = [i for i in span[0] if all(holds(guard, {I: i, J: j}) for j in span[1])]
        maybe = [i for i in span[0] if any(holds(guard, {I: i, J: j}) for j in span[1])]
        for got, want in ((guard.always_true_for(I, ranges), always), (guard.maybe_true_for(I, ranges), maybe)):
            assert list(range(got[0], got[1] + 1)) == want


def test_quotients_are_atoms():
    guard = read_guard(I // 7 * 16 + J < 100)
    assert dict(guard.terms) == {I // 7: 16, J: 1} and guard.constant == -99


def test_unknown_ranges_and_other_conditions_are_left_alone():
    guard = read_guard(I + J < 3)
    assert guard.bounds({I: (0, 1)}) is None
    assert guard.always_true_for(I, {I: (0, 1)}) is None
    assert read_guard(op.eq(I, 3)) is None
    assert read_guard(Var("x", "float32") < 3.0) is None


def test_conjunctions_are_split_in_order():
    parts = (I < 3, J < 4, K < 5)
    assert split_conjunction(op.all(*parts)) == list(parts)
