"""unroll_loop: the same result, no loop left, shared expressions, bounded growth."""

from __future__ import annotations

import numpy as np

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, For, ForKind, PrimFunc, SeqStmt
from tilewright.tir.transform.statements import walk
from tilewright.tir.transform.unroll_loop import unroll_loop

A, C = Buffer("a", [64]), Buffer("c", [64])
I, J = Var("i"), Var("j")


def nest(kind_i, kind_j, extent_i=4, extent_j=16, **annotations):
    store = BufferStore(C, BufferLoad(A, [I * 16 + J]) * const(2.0), (I * 16 + J,))
    inner = For(J, const(0), const(extent_j), kind_j, store, "", annotations)
    return PrimFunc("f", [A, C], For(I, const(0), const(extent_i), kind_i, inner))


def test_result_and_shape(interpret):
    a, c = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    func = unroll_loop(nest(ForKind.UNROLLED, ForKind.UNROLLED))
    assert isinstance(func.body, SeqStmt) and len(func.body.stmts) == 64
    assert func.body.stmts[17].indices[0] is const(17)
    interpret(func, a, c)
    np.testing.assert_array_equal(c, 2 * a)


def test_inner_serial_loop_keeps_its_variable(interpret):
    a, c = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    func = unroll_loop(nest(ForKind.UNROLLED, ForKind.SERIAL))
    assert sum(isinstance(t, For) for t in walk(func.body)) == 4
    interpret(func, a, c)
    np.testing.assert_array_equal(c, 2 * a)


def test_pragma_expands_short_serial_loops_only():
    short = unroll_loop(nest(ForKind.SERIAL, ForKind.SERIAL, unroll=16))
    assert [t.var for t in walk(short.body) if isinstance(t, For)] == [I]
    long = unroll_loop(nest(ForKind.SERIAL, ForKind.SERIAL, unroll=15))
    assert [t.var for t in walk(long.body) if isinstance(t, For)] == [I, J]


def test_growth_is_bounded():
    func = unroll_loop(nest(ForKind.UNROLLED, ForKind.UNROLLED, extent_i=1000))
    loops = [t for t in walk(func.body) if isinstance(t, For)]
    assert [(t.var, t.kind) for t in loops] == [(I, ForKind.SERIAL)]


def test_symbolic_extent_stays_a_serial_loop():
    n = Var("n")
    body = For(I, const(0), n, ForKind.UNROLLED, BufferStore(C, const(1.0), (I,)))
    func = unroll_loop(PrimFunc("f", [n, C], body))
    assert isinstance(func.body, For) and func.body.kind is ForKind.SERIAL


def test_loop_from_a_symbolic_start(interpret):
    n = Var("n")
    body = For(I, n, const(3), ForKind.UNROLLED, BufferStore(C, const(1.0), (I,)))
    c = np.zeros(64, np.float32)
    interpret(unroll_loop(PrimFunc("f", [n, C], body)), 5, c)
    assert np.flatnonzero(c).tolist() == [5, 6, 7]
