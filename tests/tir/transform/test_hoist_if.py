"""hoist_if: conditions leave the loops they do not depend on, and no others."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, PrimFunc
from tilewright.tir.transform.hoist_if import hoist_if

A = Buffer("a", [8])
I, J, N = Var("i"), Var("j"), Var("n")
STORE = BufferStore(A, const(1.0), (I,))


def hoist(condition, kind=ForKind.SERIAL, otherwise=None):
    inner = For(I, const(0), const(8), kind, IfThenElse(condition, STORE, otherwise))
    return hoist_if(PrimFunc("f", [A, N], For(J, const(0), const(4), ForKind.SERIAL, inner))).body


def test_moves_out_of_all_loops_it_does_not_depend_on():
    assert isinstance(hoist(N > 3), IfThenElse)
    body = hoist(J > 3)
    assert isinstance(body, For) and isinstance(body.body, IfThenElse)


def test_stays_where_it_depends_on_the_loop_memory_or_has_an_else():
    for body in (hoist(I > 3), hoist(BufferLoad(A, [J]) > 3.0), hoist(N > 3, otherwise=STORE)):
        assert isinstance(body, For) and isinstance(body.body, For)


def test_a_part_of_a_conjunction_moves_as_far_as_it_can():
    inner = For(I, const(0), const(8), ForKind.SERIAL, IfThenElse(op.logical_and(J > 3, I > 2), STORE))
    func = PrimFunc("f", [A, N], For(J, const(0), const(4), ForKind.SERIAL, inner))
    assert isinstance(hoist_if(func).body.body, For)
    moved = hoist_if(func, parts=True).body.body
    assert isinstance(moved, IfThenElse) and moved.condition is (J > 3)
    assert isinstance(moved.then_case, For) and moved.then_case.body.condition is (I > 2)


def test_parallel_loops_stay_outside():
    body = hoist(N > 3, ForKind.PARALLEL)
    assert isinstance(body, For) and isinstance(body.body, For)
