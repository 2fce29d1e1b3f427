"""simplify: what is certain goes, what is not stays."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Var
from tilewright.tir.op import const
from tilewright.tir.stmt import BufferStore, For, ForKind, IfThenElse, LetStmt, PrimFunc, SeqStmt
from tilewright.tir.transform.simplify import simplify

A = Buffer("a", [64])
I, J, N = Var("i"), Var("j"), Var("n")


def run(body):
    return simplify(PrimFunc("f", [A, N], body)).body


def loop(var, extent, body, kind=ForKind.SERIAL):
    return For(var, const(0), const(extent) if isinstance(extent, int) else extent, kind, body)


def test_loop_of_one_iteration_and_certain_condition_go():
    store = BufferStore(A, const(0.0), ((I * 4 + J) // 4,))
    body = run(loop(I, 8, loop(J, 1, IfThenElse(I + J < 8, store))))
    assert isinstance(body, For) and isinstance(body.body, BufferStore)
    assert body.body.indices == (I,)


def test_impossible_condition_leaves_the_else():
    zero, one = BufferStore(A, const(0.0), (I,)), BufferStore(A, const(1.0), (I,))
    assert run(loop(I, 8, IfThenElse(I >= 8, zero, one))).body is one


def test_condition_is_known_inside_its_branch():
    inner = IfThenElse(I < 5, BufferStore(A, const(0.0), (I,)))
    body = run(loop(I, 8, IfThenElse(I < 4, inner)))
    assert isinstance(body.body, IfThenElse) and isinstance(body.body.then_case, BufferStore)


def test_positions_that_both_sides_of_a_select_read_stay_within_the_buffer():
    """A select computes both sides; `if_then_else` only the one that its condition chooses."""
    read = A[op.minimum(I, 6)]
    either = run(loop(I, 8, BufferStore(A, op.select(I < 7, read, const(0.0)), (I,))))
    assert either.body.value.true_value is read
    one = run(loop(I, 8, BufferStore(A, op.if_then_else(I < 7, read, const(0.0)), (I,))))
    assert one.body.value.args[1] is A[I]


def test_loop_of_no_iterations_goes():
    body = run(loop(I, 0, BufferStore(A, const(0.0), (I,))))
    assert isinstance(body, SeqStmt) and not body.stmts


def test_let_of_a_constant_is_substituted():
    t = Var("t")
    body = run(LetStmt(t, const(2) + 1, BufferStore(A, const(0.0), (t,))))
    assert isinstance(body, BufferStore) and body.indices == (const(3),)


def test_unchanged_statements_are_the_same_object():
    body = loop(I, N, IfThenElse(op.likely(I < 4), BufferStore(A, const(0.0), (I,))))
    assert run(body) is body
