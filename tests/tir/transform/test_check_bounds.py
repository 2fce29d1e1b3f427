"""check_bounds: an access outside of its buffer is an error that names it; one inside costs nothing."""

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend.build import build
from tilewright.errors import InputError
from tilewright.tir.stmt import AssertStmt
from tilewright.tir.transform.check_bounds import check_bounds
from tilewright.tir.verify import verify
from tilewright.tir.visitor import collect


def test_before_and_after():
    n = tir.SizeVar("n")
    a, c, i = tir.Buffer("a", [8]), tir.Buffer("c", [n]), tir.Var("i")
    loop = tir.For(i, tir.const(0), n, tir.ForKind.PARALLEL, tir.BufferStore(c, a[i + 1], (i,)))
    func = check_bounds(tir.PrimFunc("f", [a, c, n], loop))
    verify(func)
    text = str(func)
    assert "for i in range(n)" in text
    (check,) = collect(func, AssertStmt)
    assert check.message == "out of bounds: index 0 of a[i + 1] is outside [0, 8)"


def test_accesses_that_are_proved_are_not_checked():
    A = te.placeholder((16, 9), name="A")
    P = te.compute((16, 11), lambda i, j: tir.if_then_else(tir.all(j >= 1, j < 10), A[i, j - 1], 0.0), name="P")
    s = te.create_schedule(P)
    s[P].split(P.op.axis[1], factor=4)
    func = check_bounds(te.schedule_to_tir(s, [A, P]))
    assert not collect(func, AssertStmt)


@pytest.mark.parametrize("shift", [0, 3, -1])
def test_a_read_outside_is_an_error_when_run(shift):
    A = te.placeholder((te.size_var("m"),), name="A")
    C = te.compute((16,), lambda i: A[i + shift] + 1.0, name="C")
    s = te.create_schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].vectorize(inner)
    s[C].parallel(outer)
    function = build(te.lower(s, [A, C], check_bounds=True), threads=2)["main"]
    a, c = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    if shift == 0:
        function(a, c)
        np.testing.assert_array_equal(c, a + 1)
    else:
        with pytest.raises(InputError, match=r"out of bounds: index 0 of A\[.*\] is outside \[0, m\)"):
            function(a, c)


def test_an_index_read_from_memory_is_checked_where_its_guard_holds():
    index = te.placeholder((8,), "int32", name="index")
    table = te.placeholder((4,), name="table")
    C = te.compute((8,), lambda i: tir.if_then_else(index[i] >= 0, table[index[i]], 0.0), name="C")
    function = build(te.lower(te.create_schedule(C), [index, table, C], check_bounds=True), threads=1)["main"]
    values, c = np.arange(4, dtype="float32"), np.zeros(8, "float32")
    good = np.array([0, 1, 2, 3, -7, -1, 3, 0], "int32")
    function(good, values, c)
    np.testing.assert_array_equal(c, np.where(good >= 0, values[np.maximum(good, 0)], 0))
    good[2] = 4
    with pytest.raises(InputError, match=r"index 0 of table\[.*\] is outside \[0, 4\)"):
        function(good, values, c)
