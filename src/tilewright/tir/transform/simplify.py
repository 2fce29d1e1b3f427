"""Simplify every expression of a function under the ranges of its loops, and drop what that decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.arith.analyzer import Analyzer
from tilewright.tir.expr import IntImm, Var
from tilewright.tir.stmt import For, ForKind, IfThenElse, LetStmt, PrimFunc, Stmt
from tilewright.tir.transform.statements import NO_OP, map_stmt, with_fields


def simplify(func: PrimFunc) -> PrimFunc:
    """`func` with simplified expressions; conditions that are certain and loops of one iteration are gone.

    for i in range(8):                      for i in range(8):
        for j in range(1):                      a[i] = 0
            if i + j < 8:           =>
                a[(i*4 + j) // 4] = 0
    """
    return func.with_body(_Simplify().stmt(func.body))


class _Simplify:
    def __init__(self) -> None:
        self.analyzer = Analyzer()

    def stmt(self, stmt: Stmt) -> Stmt:
        return _STMTS.get(type(stmt), _Simplify._other)(self, stmt)

    def _other(self, stmt: Stmt) -> Stmt:
        return map_stmt(stmt, self.stmt, self.analyzer.simplify)

    def _for(self, loop: For) -> Stmt:
        low, extent = self.analyzer.simplify(loop.min), self.analyzer.simplify(loop.extent)
        if isinstance(extent, IntImm) and loop.kind is not ForKind.THREAD_BINDING:
            if extent.value <= 0:
                return NO_OP
            if extent.value == 1:
                self.analyzer.bind(loop.var, low)
                return self.stmt(loop.body)
        self.analyzer.bind(loop.var, (low, extent))
        body = self.stmt(loop.body)
        if low is loop.min and extent is loop.extent and body is loop.body:
            return loop
        return with_fields(loop, min=low, extent=extent, body=body)

    def _if(self, stmt: IfThenElse) -> Stmt:
        condition = self.analyzer.simplify(stmt.condition)
        if isinstance(condition, IntImm):
            branch = stmt.then_case if condition.value else stmt.else_case
            return NO_OP if branch is None else self.stmt(branch)
        with self.analyzer.constraint(condition):
            then_case = self.stmt(stmt.then_case)
        else_case = None if stmt.else_case is None else self.stmt(stmt.else_case)
        if condition is stmt.condition and then_case is stmt.then_case and else_case is stmt.else_case:
            return stmt
        return IfThenElse(condition, then_case, else_case).at(stmt.position)

    def _let(self, stmt: LetStmt) -> Stmt:
        value = self.analyzer.simplify(stmt.value)
        if isinstance(value, (IntImm, Var)):
            self.analyzer.bind(stmt.var, value)
            return self.stmt(stmt.body)
        body = self.stmt(stmt.body)
        return stmt if value is stmt.value and body is stmt.body else LetStmt(stmt.var, value, body).at(stmt.position)


_STMTS: dict[type, Callable[[Any, Any], Stmt]] = {
    For: _Simplify._for,
    IfThenElse: _Simplify._if,
    LetStmt: _Simplify._let,
}
