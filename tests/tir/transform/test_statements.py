"""Helpers on statements: rebuilding, walking, substituting."""

from __future__ import annotations

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, SeqStmt, seq
from tilewright.tir.transform.statements import NO_OP, is_no_op, map_stmt, substitute_var, walk, with_fields

A = Buffer("a", [8])
I, N = Var("i"), Var("n")
STORE = BufferStore(A, const(1.0), (I,))
LOOP = For(I, const(0), N, ForKind.SERIAL, IfThenElse(N > I, seq(STORE, STORE)))


def test_unchanged_statements_are_the_same_object():
    assert map_stmt(LOOP, lambda s: s, lambda x: x) is LOOP
    assert substitute_var(LOOP, Var("other"), const(1)) is LOOP


def test_sequences_are_flattened():
    result = map_stmt(seq(STORE, LOOP), lambda s: seq(STORE, STORE), lambda x: x)
    assert isinstance(result, SeqStmt) and len(result.stmts) == 4


def test_walk_visits_parents_first():
    assert [type(s).__name__ for s in walk(LOOP)] == ["For", "IfThenElse", "SeqStmt", "BufferStore", "BufferStore"]


def test_substitute_folds():
    result = substitute_var(LOOP.body, I, const(3))
    assert result.condition is (N > 3)
    assert result.then_case.stmts[0].indices == (const(3),)
    assert substitute_var(LOOP, N, const(8)).extent is const(8)


def test_with_fields_and_no_op():
    assert with_fields(LOOP, extent=const(2)).body is LOOP.body
    assert is_no_op(NO_OP) and not is_no_op(LOOP)
