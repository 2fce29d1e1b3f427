"""Ranges as values."""

from __future__ import annotations

import pytest

from tilewright.tir import op
from tilewright.tir.arith import Analyzer, Range
from tilewright.tir.expr import Var


def test_ranges_compare_by_their_expressions() -> None:
    n = Var("n")
    assert Range(0, n) == Range(0, n)
    assert Range(0, n) != Range(0, n + 1)
    assert len({Range(0, 4), Range(0, 4), Range(1, 4)}) == 2
    assert repr(Range(2, 5)) == "range(2, 7)"


def test_bounds_of_a_range() -> None:
    n = Var("n")
    assert Range(2, 5).max is op.const(6)
    assert Range.from_bounds(2, 6) == Range(2, 5)
    assert Analyzer().simplify(Range(n, 4).max) is n + 3


def test_both_ends_have_one_integer_type() -> None:
    assert Range(0, Var("n", "int64")).min.dtype == "int64"
    with pytest.raises(TypeError, match="must be integers"):
        Range(0.0, 1.0)
