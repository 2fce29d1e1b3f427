"""rolling_buffer: each element is made once, in a buffer that wraps around; the values stay."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.backend import build
from tilewright.errors import ScheduleError
from tilewright.tir.evaluate import interpret
from tilewright.tir.expr import IntImm
from tilewright.tir.stmt import Allocate, BufferStore
from tilewright.tir.transform.rolling_buffer import rolling_buffer
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import rewrite


def sums(source, rows, columns, name):
    """Of three rows below each other, and two columns beside each other."""
    r, c = te.reduce_axis((0, 3), name="r"), te.reduce_axis((0, 2), name="c")
    return te.compute((rows, columns), lambda i, j: te.sum(source[i + r, j + c], axis=[r, c]), name=name)


def pyramid(rows=21, columns=11):
    """Two filters after each other; (input, first, second)."""
    a = te.placeholder((rows + 4, columns + 2), name="A")
    b = sums(a, rows + 2, columns + 1, "B")
    return a, b, sums(b, rows, columns, "C")


def filtered(x):
    y = x[:-2] + x[1:-1] + x[2:]
    return y[:, :-1] + y[:, 1:]


def check(schedule, a, c, **options):
    func = te.lower(schedule, [a, c], **options)
    x = np.random.default_rng(0).integers(-9, 9, [int(d.value) for d in a.shape]).astype("float32")
    y = np.zeros([int(d.value) for d in c.shape], "float32")
    build(func, threads=2)["main"](x, y)
    np.testing.assert_array_equal(y, filtered(filtered(x)))


def rolled(factor=1, along=0, inside=False):
    a, b, c = pyramid()
    s = te.create_schedule(c)
    outer, inner = s[c].split(c.op.axis[along], factor=factor)
    if along:
        s[c].reorder(outer, c.op.axis[0], inner)
    s[b].compute_at(s[c], c.op.axis[0] if inside else outer)
    s[b].rolling_buffer()
    return s, a, b, c


@pytest.mark.parametrize("factor", [1, 2, 3, 4, 7])
def test_tiles_of_rows(factor):
    s, a, _, c = rolled(factor)
    (made,) = [t.buffer for t in walk(rolling_buffer(te.schedule_to_tir(s, [a, c])).body) if isinstance(t, Allocate)]
    assert made.constant_shape() == (factor + 2, 12)
    check(s, a, c)
    check(s, a, c, check_bounds=True)


def test_each_element_is_made_once():
    counter = tir.Buffer("N", [1], "int32")
    s, a, b, c = rolled(2)

    def counted(stmt):
        if isinstance(stmt, BufferStore) and stmt.buffer.name == "B" and stmt.value is tir.const(0.0):
            one = BufferStore(counter, counter[0] + 1, (IntImm("int32", 0),))
            return tir.seq(one, stmt)
        return stmt

    def times(func):
        body = rewrite(func.body, {BufferStore: counted})
        n = np.zeros(1, "int32")
        arrays = [np.zeros([int(d.value) for d in t.shape], "float32") for t in (a, c)]
        interpret(tir.PrimFunc("f", [*func.params, counter], body), *arrays, n)
        return n[0]

    assert times(rolling_buffer(te.schedule_to_tir(s, [a, c]))) == 23 * 12  # the rows and columns of B
    s[b].rolling = False
    assert times(te.schedule_to_tir(s, [a, c])) > 1.5 * 23 * 12


@pytest.mark.parametrize("inside", [False, True])
def test_tiles_of_columns_also_along_the_rows_of_a_tile(inside):
    s, a, _, c = rolled(4, along=1, inside=inside)
    check(s, a, c)


def test_a_chain_of_rolling_stages_in_a_parallel_loop():
    a, b, c = pyramid()
    d = sums(c, 19, 10, "D")
    s = te.create_schedule(d)
    outer, inner = s[d].split(d.op.axis[0], factor=8)
    row, _ = s[d].split(inner, factor=2)
    s[d].parallel(outer)
    for tensor in (b, c):
        s[tensor].compute_at(s[d], row)
        s[tensor].rolling_buffer()
        s[tensor].vectorize(tensor.op.axis[1])
    x, y = np.random.default_rng(0).integers(-9, 9, (25, 13)).astype("float32"), np.zeros((19, 10), "float32")
    build(te.lower(s, [a, d]), threads=2)["main"](x, y)
    np.testing.assert_array_equal(y, filtered(filtered(filtered(x))))


def test_parts_without_common_elements_stay():
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((16,), lambda i: b[i] * 2.0, name="C")
    s = te.create_schedule(c)
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], factor=4)[0])
    before = str(te.schedule_to_tir(s, [a, c]))
    s[b].rolling_buffer()
    assert str(te.schedule_to_tir(s, [a, c])) == before


def test_what_cannot_roll_says_why():
    def refused(match, change):
        s, a, b, c = rolled(2)
        change(s, b, c)
        with pytest.raises(ScheduleError, match=match):
            te.lower(s, [a, c])

    def diagonal(s, b, c):
        s[b].compute_at(s[c], s[c].fuse(*s[c].leaf_iter_vars[1:3]))

    refused("rolling_buffer of B: it is computed at the root", lambda s, b, c: s[b].compute_root())
    refused("the loop i_outer it rolls along is parallel", lambda s, b, c: s[c].parallel(s[c].leaf_iter_vars[0]))
    refused("does not move its part by a constant number of steps|dimensions; it can roll along one", diagonal)


def test_what_is_read_by_address_cannot_roll():
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((12, 3), lambda i, j: b[i + j] * 2.0, name="C")
    x = te.placeholder((3,), name="x")
    y = te.compute((3,), lambda j: x[j] * 2.0, name="y")

    def body(ins, outs):
        return tir.Evaluate(tir.call_extern("int32", "f", outs[0].access_ptr("w"), ins[0].access_ptr("r")))

    twice = te.decl_tensor_intrin(y.op, body, "f")
    s = te.create_schedule(c)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    s[c].tensorize(c.op.axis[1], twice)
    with pytest.raises(ScheduleError, match="rolling_buffer of B: it is passed to a call as an address"):
        te.lower(s, [a, c])


def test_a_part_that_does_not_move_or_is_symbolic_cannot_roll():
    n = te.size_var("n")
    a = te.placeholder((n, 16), name="A")
    b = te.compute((n, 16), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, 16), lambda i, j: b[n - 1 - i, j] * b[i, j], name="C")
    s = te.create_schedule(c)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    with pytest.raises(ScheduleError, match="rolling_buffer of B: "):
        te.lower(s, [a, c])
