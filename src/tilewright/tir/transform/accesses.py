"""Which buffers a statement reads and writes, and replacing buffers by others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr
from tilewright.tir.intrinsics import written_through
from tilewright.tir.stmt import Allocate, BufferStore, DeclBuffer, Stmt
from tilewright.tir.transform.folding import map_children
from tilewright.tir.transform.statements import map_stmt, with_fields


class Accesses:
    """The buffers that the visited statements and expressions read and write, in order of first use."""

    def __init__(self) -> None:
        self.reads: dict[Buffer, None] = {}
        self.writes: dict[Buffer, None] = {}
        self._seen: set[Expr] = set()

    def stmt(self, stmt: Stmt) -> Stmt:
        """Notes what `stmt` and all below it access; returns it."""
        if type(stmt) is BufferStore:
            assert isinstance(stmt, BufferStore)
            self.writes[stmt.buffer] = None
        return map_stmt(stmt, self.stmt, self.expr)

    def expr(self, x: Expr) -> Expr:
        """Notes what `x` reads; memory whose address is taken to write counts as written too. Returns `x`."""
        if x not in self._seen:
            self._seen.add(x)
            if isinstance(x, BufferLoad):
                self.reads[x.buffer] = None
            elif isinstance(x, Call) and x.op == "address_of" and written_through(x):
                self.writes[x.args[0].buffer] = None  # type: ignore[attr-defined]
            map_children(x, self.expr)
        return x


def accesses_of(*parts: Stmt | Expr) -> Accesses:
    """The buffers read and written by the statements and expressions `parts`."""
    found = Accesses()
    for part in parts:
        if isinstance(part, Stmt):
            found.stmt(part)
        else:
            found.expr(part)
    return found


def replace_buffers(stmt: Stmt, replacement: Mapping[Buffer, Buffer]) -> Stmt:
    """`stmt` with each buffer in `replacement` (of the same shape and dtype) replaced."""
    memo: dict[Expr, Expr] = {}

    def expr(x: Expr) -> Expr:
        found = memo.get(x)
        if found is None:
            found = map_children(x, expr)
            if isinstance(found, BufferLoad) and found.buffer in replacement:
                found = BufferLoad(replacement[found.buffer], found.indices)
            memo[x] = found
        return found

    def visit(s: Any) -> Stmt:
        s = map_stmt(s, visit, expr)
        if type(s) in (BufferStore, Allocate, DeclBuffer) and s.buffer in replacement:
            s = with_fields(s, buffer=replacement[s.buffer])
        return s

    return visit(stmt)
