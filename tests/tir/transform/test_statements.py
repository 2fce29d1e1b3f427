"""Helpers on statements: walking them, and replacing fields."""

from __future__ import annotations

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, seq
from tilewright.tir.transform.statements import NO_OP, is_no_op, walk, with_fields

A = Buffer("a", [8])
I, N = Var("i"), Var("n")
STORE = BufferStore(A, const(1.0), (I,))
LOOP = For(I, const(0), N, ForKind.SERIAL, IfThenElse(N > I, seq(STORE, STORE)))


def test_walk_visits_parents_first():
    assert [type(s).__name__ for s in walk(LOOP)] == ["For", "IfThenElse", "SeqStmt", "BufferStore", "BufferStore"]


def test_with_fields_and_no_op():
    assert with_fields(LOOP, extent=const(2)).body is LOOP.body
    assert is_no_op(NO_OP) and not is_no_op(LOOP)
