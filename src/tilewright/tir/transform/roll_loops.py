"""A short version of scheduled code, for cases that are rare: its loops as loops, in memory of its own."""

from __future__ import annotations

from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call
from tilewright.tir.stmt import Allocate, For, ForKind, IfThenElse, Stmt
from tilewright.tir.transform.affine import read_guard, split_conjunction
from tilewright.tir.transform.statements import map_stmt, walk
from tilewright.tir.visitor import substitute


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

    def visit(stmt: Stmt) -> Stmt:
        stmt = map_stmt(stmt, visit, lambda x: x)
        if not isinstance(stmt, For) or stmt.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED):
            return stmt
        if stmt.kind is ForKind.VECTORIZED and stmt.var not in guarded:
            return stmt
        return For(stmt.var, stmt.min, stmt.extent, ForKind.SERIAL, stmt.body, stmt.thread, stmt.annotations)

    own = [stmt.buffer for stmt in walk(body) if isinstance(stmt, Allocate)]
    return substitute(visit(body), {}, {old: _copy(old) for old in own})


def _copy(old: Buffer) -> Buffer:
    return Buffer(old.name, old.shape, old.dtype, old.scope, old.strides, old.alignment)
