"""Interval sets of the accesses that tiled loops make."""

from __future__ import annotations

import pytest

from tilewright.tir import op
from tilewright.tir.arith import Analyzer, IntervalSet, Range, eval_interval, intersect, union
from tilewright.tir.expr import Expr, Ramp, SizeVar, Var

O, I, N = Var("o"), Var("i"), SizeVar("n")


@pytest.mark.parametrize(
    ("expr", "low", "high"),
    [
        (O * 16 + I, O * 16, O * 16 + 15),
        (O * 16 + I * 2 - 3, O * 16 - 3, O * 16 + 27),
        (O - I, O - 15, O),
        (I // 4, 0, 3),
        ((O * 16 + I) // 16, O, O),
        (I % 4, 0, 3),
        (I % 32, 0, 15),
        (op.minimum(I, N), None, op.minimum(15, N)),
        (op.maximum(op.minimum(I - 2, 9), 0), 0, 9),
        (I * N, 0, N * 15),
        (op.select(op.less(I, 4), I, I + 20), 0, 35),
        (Ramp(I * 4, op.const(1), 4), 0, 63),
        (N + 1, N + 1, N + 1),
    ],
)
def test_an_access_covers_this_interval(expr: Expr, low: object, high: object) -> None:
    known = Analyzer()
    found = eval_interval(expr, {I: Range(0, 16)}, known)
    for end, wanted in zip(found, (low, high), strict=True):
        if wanted is not None:
            assert end is known.simplify(op.convert(wanted))


def test_unknown_access_is_open() -> None:
    assert eval_interval(I * I, {I: Range(-3, 16)}) == (None, None)


def test_union_and_intersection() -> None:
    a, b = IntervalSet(op.const(0), op.const(4)), IntervalSet(op.const(3), op.const(9))
    assert union(a, b) == (op.const(0), op.const(9))
    assert intersect(a, b) == (op.const(3), op.const(4))
    assert union(a, IntervalSet(None, op.const(1))).min is None
    assert intersect(a, IntervalSet(None, op.const(1))) == (op.const(0), op.const(1))
    span = a.to_range()
    assert span is not None
    assert Analyzer().simplify(span.extent) is op.const(5)
