"""Values that no loop changes: computed once, before the loops, and equal."""

from __future__ import annotations

import numpy as np

from tilewright import tir
from tilewright.tir import expr as e
from tilewright.tir import ir_builder
from tilewright.tir.evaluate import interpret
from tilewright.tir.stmt import For, LetStmt, PrimFunc
from tilewright.tir.transform.hoist_values import hoist_values
from tilewright.tir.visitor import collect


def _function(make, stored=False):
    a, b, c = tir.Buffer("a", (8,), "float32"), tir.Buffer("b", (1,), "float32"), tir.Buffer("c", (8,), "float32")
    ib = ir_builder.create()
    x, y, out = ib.buffer_ptr(a), ib.buffer_ptr(b), ib.buffer_ptr(c)
    with ib.for_range(0, 8, name="i") as i:
        out[i] = make(x, y, i)
        if stored:
            y[0] = x[i]
    return PrimFunc("f", [a, b, c], ib.get())


def _results(func):
    x, y, out = np.arange(8, dtype=np.float32) - 3, np.array([-4], np.float32), np.zeros(8, np.float32)
    interpret(func, x, y, out)
    return out


def _scaled(x, y, i):
    size = tir.call_intrin("float32", "fabs", y[0])
    factor = tir.select(size == 0.0, tir.const(0.0, "float32"), tir.const(127.0, "float32") / size)
    return x[i] * factor + factor


def test_a_scale_is_computed_once() -> None:
    before = _function(_scaled)
    after = hoist_values(before)
    assert isinstance(after.body, LetStmt) and isinstance(after.body.body, For)
    assert len(collect(after, e.Div)) == 1 and not collect(after.body.body, e.Div, e.Select)
    np.testing.assert_array_equal(_results(after), _results(before))


def test_what_changes_stays() -> None:
    for func in (
        _function(_scaled, stored=True),  # the input is written
        _function(lambda x, y, i: x[i] / y[i]),  # the element moves with the loop
        _function(lambda x, y, i: x[i] * y[0]),  # a load alone
    ):
        assert hoist_values(func) is func
