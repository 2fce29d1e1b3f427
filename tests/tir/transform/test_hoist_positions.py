"""Positions that no loop changes: computed once, before the loops, and equal."""

from __future__ import annotations

import numpy as np

from tilewright import tir
from tilewright.tir import ir_builder
from tilewright.tir.evaluate import interpret
from tilewright.tir.expr import FloorDiv, FloorMod, IntImm
from tilewright.tir.stmt import For, LetStmt, PrimFunc
from tilewright.tir.transform.hoist_positions import hoist_positions
from tilewright.tir.visitor import collect


def _function(divisor=None):
    """Elements of a picture of 5 columns: `n` is the number of a position among 3 of each row."""
    x, out, n, d = tir.Buffer("x", (40,), "float32"), tir.Buffer("out", (1,), "float32"), tir.Var("n"), tir.Var("d")
    ib = ir_builder.create()
    read, write = ib.buffer_ptr(x), ib.buffer_ptr(out)
    with ib.for_range(0, 4, name="k") as k:
        by = tir.const(3, "int32") if divisor is None else d
        write[0] = write[0] + read[FloorDiv(n, by) * 5 + k * 2 + FloorMod(n, by)]
    return PrimFunc("f", [x, out, n, d], ib.get())


def _result(func, n):
    x, out = np.arange(40, dtype=np.float32) ** 2, np.zeros(1, np.float32)
    interpret(func, x, out, n, 3)
    return out


def _divisions(func):
    return [loop for loop in collect(func.body, For) if collect(loop.body, FloorDiv, FloorMod)]


def test_a_position_is_computed_once() -> None:
    before, after = _function(), hoist_positions(_function())
    assert _divisions(before)
    assert not _divisions(after)
    assert len(collect(after.body, LetStmt)) == 1  # of the sum, without what the loop changes
    for n in range(9):
        np.testing.assert_array_equal(_result(after, n), _result(before, n))


def test_a_division_that_may_fail_stays() -> None:
    func = hoist_positions(_function("variable"))
    assert _divisions(func)
    assert not any(isinstance(x.value, IntImm) for x in collect(func.body, LetStmt))
