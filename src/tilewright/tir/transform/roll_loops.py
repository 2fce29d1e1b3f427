"""A short version of scheduled code, for cases that are rare: its loops as loops, in memory of its own."""

from __future__ import annotations

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call, Expr
from tilewright.tir.stmt import Allocate, For, ForKind, IfThenElse, Stmt
from tilewright.tir.transform.affine import read_guard, split_conjunction
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.visitor import StmtRewriter, substitute


def roll_loops(body: Stmt) -> Stmt:
    """`body` with its unrolled loops serial, and vectorized ones too where a `likely` guard depends on their variable.

        for i in unrolled(8):               for i in range(8):
            if likely(i < n):       =>          if likely(i < n):
                c[i] = a[i]                         c[i] = a[i]

    Local buffers are replaced: loops index them, and those of the version beside this one shall become registers.
    """
    guarded = {
        atom
        for stmt in walk(body)
        if isinstance(stmt, IfThenElse)
        for part in split_conjunction(stmt.condition)
        if isinstance(part, Call) and part.op == "likely"
        for guard in [read_guard(part.args[0])]
        if guard is not None
        for atom, _ in guard.terms
    }

    own = [stmt.buffer for stmt in walk(body) if isinstance(stmt, Allocate)]
    return substitute(_Roller(guarded)(body), {}, {old: _copy(old) for old in own})


class _Roller(StmtRewriter):
    def __init__(self, guarded: set[Expr]) -> None:
        super().__init__()
        self.guarded = guarded

    def visit_For(self, node: For) -> Stmt:
        """The loop, serial unless its lanes may stay vectors."""
        loop: For = self.rebuild(node)
        rolled = loop.kind is ForKind.UNROLLED or (loop.kind is ForKind.VECTORIZED and loop.var in self.guarded)
        return with_fields(loop, kind=ForKind.SERIAL) if rolled else loop


def _copy(old: Buffer) -> Buffer:
    return Buffer(old.name, old.shape, old.dtype, old.scope, old.strides, old.alignment)
