"""Simplify every expression of a function under the ranges of its loops, and drop what that decides."""

from __future__ import annotations

from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.stmt import For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from tilewright.tir.transform.statements import NO_OP, with_fields
from tilewright.tir.visitor import StmtRewriter


def simplify(func: PrimFunc) -> PrimFunc:
    """`func` with simplified expressions; conditions that are certain and loops of one iteration are gone.

    for i in range(8):                      for i in range(8):
        for j in range(1):                      a[i] = 0
            if i + j < 8:           =>
                a[(i*4 + j) // 4] = 0
    """
    return _Simplify()(func)


class _Simplify(StmtRewriter):
    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()

    def visit_Expr(self, node: Expr) -> Expr:
        """The expression, simplified by what is known here."""
        return self.analyzer.simplify(node)

    def visit_For(self, loop: For) -> Stmt:
        """The loop, if it runs more than once."""
        low, extent = self(loop.min), self(loop.extent)
        if isinstance(extent, IntImm) and loop.kind is not ForKind.THREAD_BINDING:
            if extent.value <= 0:
                return NO_OP
            if extent.value == 1:
                self.analyzer.bind(loop.var, low)
                return self(loop.body)
        self.analyzer.bind(loop.var, (low, extent))
        body = self(loop.body)
        if low is loop.min and extent is loop.extent and body is loop.body:
            return loop
        return with_fields(loop, min=low, extent=extent, body=body)

    def visit_IfThenElse(self, stmt: IfThenElse) -> Stmt:
        """The branches, each simplified by what the condition says; or the one that is taken."""
        condition = self(stmt.condition)
        if isinstance(condition, IntImm):
            branch = stmt.then_case if condition.value else stmt.else_case
            return NO_OP if branch is None else self(branch)
        with self.analyzer.constraint(condition):
            then_case = self(stmt.then_case)
        else_case = None if stmt.else_case is None else self(stmt.else_case)
        if condition is stmt.condition and then_case is stmt.then_case and else_case is stmt.else_case:
            return stmt
        return IfThenElse(condition, then_case, else_case)

    def visit_LetStmt(self, stmt: LetStmt) -> Stmt:
        """The body; a constant or a variable is put in place of the name."""
        value = self(stmt.value)
        if isinstance(value, (IntImm, Var)):
            self.analyzer.bind(stmt.var, value)
            return self(stmt.body)
        body = self(stmt.body)
        return stmt if value is stmt.value and body is stmt.body else LetStmt(stmt.var, value, body)
