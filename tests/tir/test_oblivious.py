"""Data that can be observed from the branches, trip counts, addresses and calls of a kernel."""

from __future__ import annotations

import pytest

from tilewright import tir
from tilewright.tir import ir_builder
from tilewright.tir.oblivious import data_dependences
from tilewright.tir.op import call_intrin
from tilewright.tir.stmt import PrimFunc

N = tir.SizeVar("n")


def _function(write):
    """The function that `write(builder, a, b, n)` fills, of two arrays of 8 integers and a size."""
    a, b = tir.Buffer("a", (8,), "int32"), tir.Buffer("b", (8,), "int32")
    ib = ir_builder.create()
    write(ib, ib.buffer_ptr(a), ib.buffer_ptr(b), N)
    return PrimFunc("f", [a, b, N], ib.get())


def _sizes_and_choices(ib, a, b, n):
    with ib.for_range(0, n, name="i") as i, ib.if_scope(i < n // 2):
        b[i] = tir.select(a[i] > 0, a[i], 0)


def _branch(ib, a, b, n):
    with ib.if_scope(a[0] > n):
        b[0] = 1


def _one_side(ib, a, b, n):
    b[0] = call_intrin("int32", "if_then_else", a[0] > 0, a[1], 0)


def _while(ib, a, b, n):
    x = ib.allocate("int32", 1, "x", scope="local")
    x[0] = a[0]
    with ib.while_loop(x[0] > 1):
        x[0] = x[0] - 1


def _public_counter(ib, a, b, n):
    x = ib.allocate("int32", 1, "x", scope="local")
    x[0] = n
    with ib.while_loop(x[0] > 1):
        x[0] = x[0] - 1


def _trip_count(ib, a, b, n):
    with ib.for_range(0, ib.let("many", a[0] + 1), name="i") as i:
        b[i] = 0


def _gather(ib, a, b, n):
    b[n] = a[a[n]]


def _scatter(ib, a, b, n):
    b[a[0]] = n


def _outside(ib, a, b, n):
    b[0] = call_intrin("int32", "call_extern", "rank", a[0])


@pytest.mark.parametrize("write", [_sizes_and_choices, _public_counter])
def test_sizes_are_public_and_choices_of_values_are_no_branches(write):
    assert data_dependences(_function(write)) == []


@pytest.mark.parametrize(
    ("write", "found"),
    [
        (_branch, ["branch: a[0] > n"]),
        (_one_side, ["branch: if_then_else(a[0] > 0, a[1], 0)"]),
        (_while, ["branch: x[0] > 1"]),
        (_trip_count, ["trip count: for i in range(many):"]),
        (_gather, ["address: a[a[n]]"]),
        (_scatter, ["address: b[a[0]] = n"]),
        (_outside, ["call: call_extern(\"int32\", 'rank', a[0])"]),
    ],
)
def test_what_can_be_observed_is_named(write, found):
    assert [str(one) for one in data_dependences(_function(write))] == found
