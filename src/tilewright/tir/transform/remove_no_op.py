"""Drop statements that do nothing."""

from __future__ import annotations

from typing import Any

from tilewright.tir.expr import Call, IntImm
from tilewright.tir.stmt import Evaluate, For, IfThenElse, PrimFunc, Stmt
from tilewright.tir.transform.statements import NO_OP, is_no_op
from tilewright.tir.visitor import StmtRewriter


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """`func` without empty bodies, loops of no iterations, decided conditions and evaluations that have no effect.

    for i in range(0): a[i] = 1
    if False: a[0] = 2                  =>      a[1] = 3
    for i in range(8): 0
    a[1] = 3
    """
    return _Cleaner()(func)


class _Cleaner(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """The loop, if it runs at all."""
        loop: For = self.rebuild(node)
        none = isinstance(loop.extent, IntImm) and loop.extent.value <= 0
        return NO_OP if none or is_no_op(loop.body) else loop

    def visit_IfThenElse(self, node: IfThenElse) -> Stmt:
        """The side that is taken where that is known; a side that does something."""
        stmt: IfThenElse = self.rebuild(node)
        otherwise = stmt.else_case
        if otherwise is not None and is_no_op(otherwise):
            otherwise = None
        if isinstance(stmt.condition, IntImm):
            return stmt.then_case if stmt.condition.value else otherwise or NO_OP
        if is_no_op(stmt.then_case) and otherwise is None:
            return NO_OP
        return stmt if otherwise is stmt.else_case else IfThenElse(stmt.condition, stmt.then_case, otherwise)

    def visit_Evaluate(self, node: Evaluate) -> Stmt:
        """A call; anything else has no effect."""
        return node if isinstance(node.value, Call) else NO_OP

    def visit_Allocate(self, node: Any) -> Stmt:
        """The declaration or binding, removed where its body is empty."""
        stmt = self.rebuild(node)
        return NO_OP if is_no_op(stmt.body) else stmt

    visit_LetStmt = visit_DeclBuffer = visit_AttrStmt = visit_Allocate
