"""Python's operators on expressions: comparisons by `==`, bits, shifts, truth values."""

from __future__ import annotations

import itertools
import operator

import pytest

from tilewright import te, tir
from tilewright.errors import NoTruthValue, TypeMismatchError
from tilewright.tir.evaluate import evaluate

I, J = tir.Var("i"), tir.Var("j")


def test_comparisons_by_equality_are_expressions() -> None:
    for made in (tir.convert(I == 2), tir.all(I == 2), I.equal(2), tir.select(I == 2, True, False).condition):
        assert made is tir.eq(I, 2)
    assert tir.convert(I != J) is tir.ne(I, J) and tir.convert(I == 2) is tir.eq(I, 2)
    assert tir.any(I == 2, J != 1) is tir.logical_or(tir.eq(I, 2), tir.ne(J, 1))
    assert (I == 2).dtype == "bool" and repr(I == 2) == "i == 2"
    assert ((I == 2) & (J < 3)) is tir.logical_and(tir.eq(I, 2), J < 3)
    assert (I == 2).astype("int32") is tir.cast("int32", tir.eq(I, 2))
    axis = te.reduce_axis((0, 4), "k")
    assert tir.convert(axis == 0) is tir.eq(axis.var, 0) and {axis: 1}[axis] == 1 and axis != te.reduce_axis((0, 4))


def test_comparisons_as_truth_values_ask_for_identity() -> None:
    same, other = I + 1, J + 1
    assert same == I + 1 and same != other and I != 2
    assert [same, other].index(other) == 1 and {same: 1, other: 2}[I + 1] == 1 and other in {same, other}
    assert tir.const(4) == 4 and tir.const(4) != 5 and (tir.const(4), I) == (4, I) and tir.const(2.5) == 2.5
    assert (I == "text") is False and (I == None) is False  # noqa: E711
    assert tir.convert("pragma") == "pragma" and tir.convert("pragma") != "other"


def test_expressions_have_no_truth_value_but_constants_do() -> None:
    for expr in (I, I < J, tir.eq(I, 2), I + 1):
        with pytest.raises(NoTruthValue, match="no truth value"):
            bool(expr)
    assert not tir.const(0) and tir.const(3) and list(range(tir.const(3))) == [0, 1, 2]
    assert float(tir.const(1.5)) == 1.5 and int(tir.const(7)) == 7


@pytest.mark.parametrize("apply", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift])
def test_bits_of_integers(apply: object) -> None:
    for a, b in itertools.product((-5, 0, 3, 12), (0, 1, 4)):
        expected = apply(a, b)  # type: ignore[operator]
        assert evaluate(apply(I, J), {I: a, J: b}) == expected  # type: ignore[operator]
        assert evaluate(apply(a, J), {J: b}) == expected == apply(tir.const(a), b).value  # type: ignore[operator]
    assert evaluate(~I, {I: 5}) == ~5 == (~tir.const(5)).value


def test_bits_of_bools_are_logic() -> None:
    p, q = I < 3, J < 3
    assert (p & q) is tir.logical_and(p, q) and (p | q) is tir.logical_or(p, q) and (~p) is tir.logical_not(p)
    for i, j in itertools.product((0, 5), (0, 5)):
        assert evaluate(p ^ q, {I: i, J: j}) == ((i < 3) != (j < 3))


def test_what_has_no_bits() -> None:
    with pytest.raises(TypeMismatchError, match="bitwise_and of float32: bits are those of integers"):
        _ = tir.const(1.0) & tir.const(2.0)
    with pytest.raises(TypeMismatchError, match="shift_left of int32 by 32: it takes shifts from 0 to 31"):
        _ = I << 32
    with pytest.raises(TypeMismatchError, match="shift_right of int32 by -1"):
        _ = I >> -1
