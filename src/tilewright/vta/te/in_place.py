"""Let a stage of the vector unit work in place: ALU has one operand where its result goes.

T = allocate(int32[8, 16])                  T = allocate(int32[8, 16])
U = allocate(int32[8, 16])                  …
…                                     =>    for i in range(8):
for i in range(8):                              for j in range(16):
    for j in range(16):                             T[i, j] = shift_right(T[i, j], 8)
        U[i, j] = shift_right(T[i, j], 8)
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Expr
from tilewright.tir.stmt import Allocate, AttrStmt, BufferStore, PrimFunc, SeqStmt, Stmt
from tilewright.tir.transform.coproc_sync import KEY
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import Rewriter, StmtRewriter, collect
from tilewright.vta.te.vector import starts


def in_place(func: PrimFunc) -> PrimFunc:
    """`func` without buffers that nothing uses, and with some reusing the memory of those that they are made of.

    Made by loops under the attribute of a unit: the two are allocated together, have the same shape and type, each
    element depends on the one at the same index, and the other buffer is not used afterwards. Runs before tokens are
    placed: these see one buffer.
    """
    return func.with_body(_Joiner()(func.body))


class _Joiner(StmtRewriter):
    def visit_Allocate(self, node: Allocate) -> Stmt:
        """Allocations that follow each other, and what they hold."""
        chain, body = [node], node.body
        while isinstance(body, Allocate):
            chain.append(body)
            body = body.body
        body = self(body)
        stmts = list(body.stmts) if isinstance(body, SeqStmt) else [body]
        taken = _replaced([one.buffer for one in chain], stmts)
        if taken:
            body = _Renamed(taken)(body)
        used = _touched(body)
        for one in reversed(chain):
            if one.buffer in used:
                body = Allocate(one.buffer, body).at(one.position)
        return body


def _replaced(buffers: Sequence[Buffer], stmts: Sequence[Stmt]) -> dict[Buffer, Buffer]:
    """The buffers that need no memory of their own, each with the one whose position it takes."""
    uses = [_touched(stmt) for stmt in stmts]
    taken: dict[Buffer, Buffer] = {}
    for number, stmt in enumerate(stmts):
        made = _made_by(stmt)
        if made is None or made not in buffers or any(made in before for before in uses[:number]):
            continue
        for other in _same_index_reads(stmt, made):
            fits = other in buffers and _alike(made, other)
            if fits and all(other not in after for after in uses[number + 1 :]):
                taken[made] = taken.get(other, other)
                break
    return taken


def _made_by(stmt: Stmt) -> Buffer | None:
    """The one buffer that an instruction of loops writes."""
    if not (isinstance(stmt, AttrStmt) and stmt.key == KEY):
        return None
    stores = {s.buffer for s in walk(stmt) if isinstance(s, BufferStore)}
    return stores.pop() if len(stores) == 1 else None


def _same_index_reads(stmt: Stmt, made: Buffer) -> list[Buffer]:
    """Buffers that the result of a statement with one store can begin as: read at the index that is written."""
    stores = [s for s in walk(stmt) if isinstance(s, BufferStore)]
    if len(stores) != 1:
        return []
    found = starts(stores[0].value)
    return [load.buffer for load in found if load.buffer is not made and _same(load.indices, stores[0].indices)]


def _same(left: Sequence[Expr], right: Sequence[Expr]) -> bool:
    return len(left) == len(right) and all(Analyzer().can_prove_equal(a, b) for a, b in zip(left, right))


def _alike(one: Buffer, other: Buffer) -> bool:
    same = one.dtype is other.dtype and one.scope == other.scope and one.strides is other.strides is None
    return same and _same(one.shape, other.shape)


def _touched(stmt: Stmt) -> set[Buffer]:
    nodes = collect(stmt, BufferLoad, BufferStore)
    return {node.buffer for node in nodes}  # type: ignore[attr-defined]


class _Renamed(Rewriter):
    def __init__(self, names: dict[Buffer, Buffer]) -> None:
        super().__init__()
        self.names = names

    def visit_BufferLoad(self, node: BufferLoad) -> Expr:
        return BufferLoad(self.names.get(node.buffer, node.buffer), tuple(self(i) for i in node.indices))

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        indices = tuple(self(i) for i in node.indices)
        return BufferStore(self.names.get(node.buffer, node.buffer), self(node.value), indices)
