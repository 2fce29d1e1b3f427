"""Rolling up scheduled code: unrolled loops serial, vectors that are guarded single, memory of its own."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import SizeVar, Var
from tilewright.tir.stmt import Allocate, BufferStore, For, ForKind, IfThenElse, Stmt
from tilewright.tir.transform.roll_loops import roll_loops
from tilewright.tir.transform.statements import walk


def kinds(body: Stmt) -> list[ForKind]:
    return [s.kind for s in walk(body) if isinstance(s, For)]


def test_only_vectors_that_no_guard_cuts_stay() -> None:
    n, row, lane, a = SizeVar("n"), Var("row"), Var("lane"), Buffer("a", (64,))

    def nest(*guards: object) -> Stmt:
        store: Stmt = BufferStore(a, op.const(1.0), (row * 8 + lane,))
        for guard in guards:
            store = IfThenElse(op.likely(guard), store)
        return For(
            row,
            op.const(0),
            op.const(8),
            ForKind.UNROLLED,
            For(lane, op.const(0), op.const(8), ForKind.VECTORIZED, store),
        )

    assert kinds(roll_loops(nest())) == [ForKind.SERIAL, ForKind.VECTORIZED]
    assert kinds(roll_loops(nest(row < n))) == [ForKind.SERIAL, ForKind.VECTORIZED]
    assert kinds(roll_loops(nest(row < n, row * 8 + lane < n))) == [ForKind.SERIAL, ForKind.SERIAL]


def test_local_memory_is_not_shared_with_the_other_version() -> None:
    acc, i = Buffer("acc", (8,), scope="local"), Var("i")
    body = Allocate(acc, For(i, op.const(0), op.const(8), ForKind.UNROLLED, BufferStore(acc, acc[i] + 1.0, (i,))))
    rolled = roll_loops(body)
    assert isinstance(rolled, Allocate) and rolled.buffer is not acc
    (store,) = [s for s in walk(rolled) if isinstance(s, BufferStore)]
    assert store.buffer is rolled.buffer and store.value is rolled.buffer[i] + 1.0
