"""remove_no_op: empty things go, effects stay."""

from __future__ import annotations

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Var
from tilewright.tir.op import const
from tilewright.tir.stmt import Allocate, BufferStore, Evaluate, For, ForKind, IfThenElse, PrimFunc, SeqStmt, seq
from tilewright.tir.transform.remove_no_op import remove_no_op

A = Buffer("a", [8])
I = Var("i")
STORE = BufferStore(A, const(1.0), (const(0),))
NOTHING = Evaluate(const(0))


def clean(*stmts):
    return remove_no_op(PrimFunc("f", [A], seq(*stmts))).body


def test_only_the_store_stays():
    empty_loop = For(I, const(0), const(0), ForKind.SERIAL, BufferStore(A, const(2.0), (I,)))
    idle_loop = For(I, const(0), const(8), ForKind.SERIAL, NOTHING)
    never = IfThenElse(const(False), STORE)
    unused = Allocate(Buffer("t", [4]), NOTHING)
    assert clean(empty_loop, idle_loop, never, unused, STORE) is STORE


def test_decided_condition_leaves_its_branch():
    assert clean(IfThenElse(const(True), STORE, NOTHING)) is STORE
    assert clean(IfThenElse(const(False), NOTHING, STORE)) is STORE


def test_empty_else_goes():
    n = Var("n")
    result = clean(IfThenElse(n > 0, STORE, NOTHING))
    assert isinstance(result, IfThenElse) and result.else_case is None


def test_calls_with_effects_stay():
    barrier = Evaluate(Call("int32", "barrier", ()))
    assert clean(barrier) is barrier


def test_all_gone_leaves_the_empty_sequence():
    result = clean(NOTHING)
    assert isinstance(result, SeqStmt) and result.stmts == ()
