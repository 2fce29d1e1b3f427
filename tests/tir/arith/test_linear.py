"""Canonical sums and the detection of affine expressions and clip bounds."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.arith import Linear, detect_clip_bound, detect_linear
from tilewright.tir.expr import Var

X, Y, N = Var("x"), Var("y"), Var("n")


def test_linear_of_a_sum() -> None:
    form = Linear.of((X * 4 + Y) * 2 - X - 3)
    assert form.terms == {X: 7, Y: 2}
    assert form.constant == -3
    assert repr(form.to_expr("int32")) == "x * 7 + y * 2 - 3"
    assert Linear.of(X - X + Y - Y).terms == {}


def test_split_keeps_the_value() -> None:
    whole, rest = Linear.of(X * 8 + Y * 3 + 13).split(4)
    assert (whole.terms, whole.constant, rest.terms, rest.constant) == ({X: 2}, 3, {Y: 3}, 1)


def test_recombined_rebuilds_what_was_split() -> None:
    assert Linear.of(X // 4 * 8 + X % 4 * 2).recombined().terms == {X: 2}
    assert Linear.of(X // 4 % 3 * 4 + X % 4).recombined().terms == {X % 12: 1}
    assert len(Linear.of(X // 4 * 4 + X % 3).recombined().terms) == 2
    assert Linear.of((X % 7 * 32 + Y) // 14 * 14 + (X * 32 + Y) % 14).recombined().terms == {X % 7: 32, Y: 1}
    assert len(Linear.of((X % 7 * 32 + Y) // 14 * 14 + (X * 31 + Y) % 14).recombined().terms) == 2


def test_coefficients_of_affine_expressions_are_found() -> None:
    assert detect_linear(X * 4 + Y + 3, [X, Y]) == [op.const(4), op.const(1), op.const(3)]
    assert detect_linear(X * N + Y, [X]) == [N, Y]
    assert detect_linear((X + Y) * 2 - X, [X, Y]) == [op.const(1), op.const(2), op.const(0)]
    assert detect_linear(X // 2, [X]) is None
    assert detect_linear(X * Y, [X, Y]) is None
    assert detect_linear(Y // 2, [X]) == [op.const(0), Y // 2]


def test_detect_clip_bound() -> None:
    bounds = detect_clip_bound(op.all(op.less(X, N), op.greater_equal(X, 2), op.less_equal(1, Y)), [X, Y])
    assert bounds is not None
    (low, high), (y_low, y_high) = bounds[X], bounds[Y]
    assert repr(low) == "2"
    assert high is not None
    assert repr(Linear.of(high).to_expr("int32")) == "n - 1"
    assert y_low is op.const(1)
    assert y_high is None
    assert detect_clip_bound(op.less(X * 2, N), [X]) is None
    assert detect_clip_bound(op.less(X + Y, N), [X, Y]) is None
