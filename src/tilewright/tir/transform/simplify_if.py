"""Fewer tests of conditions: nested ifs as one, and neighbours under one condition as one."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.expr import BufferLoad, FloorDiv, FloorMod
from tilewright.tir.stmt import IfThenElse, PrimFunc, SeqStmt, Stmt, seq
from tilewright.tir.transform.accesses import accesses_of
from tilewright.tir.visitor import StmtRewriter, collect


def simplify_if(func: PrimFunc) -> PrimFunc:
    """`func` with each condition tested once.

        if i < n:                                  if i < n and j < m:
            if j < m:                                  a[i] = 1
                a[i] = 1               =>              b[i] = 2
        if i < n and j < m:
            b[i] = 2

    An inner condition that may fault where the outer one is false stays inside; neighbours are joined where the first
    writes nothing that the condition reads.
    """
    return func.with_body(_Joiner()(func.body))


class _Joiner(StmtRewriter):
    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        """An if whose body is an if tests both at once; two equal branches need no test."""
        made: IfThenElse = self.rebuild(node)
        inner = made.then_case
        if made.else_case is not None or not isinstance(inner, IfThenElse) or inner.else_case is not None:
            return made
        if collect(inner.condition, BufferLoad, FloorDiv, FloorMod):
            return made
        return IfThenElse(op.all(made.condition, inner.condition), inner.then_case)

    def visit_SeqStmt(self, node: SeqStmt) -> Stmt:
        """Neighbours under one condition."""
        made = self.rebuild(node)
        if not isinstance(made, SeqStmt):
            return made
        parts: list[Stmt] = []
        for part in made.stmts:
            before = parts[-1] if parts else None
            if isinstance(before, IfThenElse) and isinstance(part, IfThenElse) and _same_test(before, part):
                parts[-1] = _joined(before, part)
            else:
                parts.append(part)
        return made if len(parts) == len(made.stmts) else seq(*parts)


def _same_test(a: IfThenElse, b: IfThenElse) -> bool:
    if a.condition is not b.condition:
        return False
    return not set(accesses_of(a).writes) & set(accesses_of(a.condition).reads)


def _joined(a: IfThenElse, b: IfThenElse) -> IfThenElse:
    otherwise = None if a.else_case is None and b.else_case is None else seq(a.else_case, b.else_case)
    return IfThenElse(a.condition, seq(a.then_case, b.then_case), otherwise)
