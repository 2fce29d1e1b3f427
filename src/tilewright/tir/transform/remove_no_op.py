"""Drop statements that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.tir.expr import Call, Expr, IntImm
from tilewright.tir.stmt import Allocate, AttrStmt, DeclBuffer, Evaluate, For, IfThenElse, LetStmt, PrimFunc, Stmt
from tilewright.tir.transform.statements import NO_OP, is_no_op, map_stmt


def remove_no_op(func: PrimFunc) -> PrimFunc:
    """`func` without empty bodies, loops of no iterations, decided conditions and evaluations that have no effect.

    for i in range(0): a[i] = 1
    if False: a[0] = 2                  =>      a[1] = 3
    for i in range(8): 0
    a[1] = 3
    """
    return func.with_body(_clean(func.body))


def _clean(stmt: Stmt) -> Stmt:
    stmt = map_stmt(stmt, _clean, _same)
    rule = _RULES.get(type(stmt))
    return stmt if rule is None else rule(stmt)


def _same(x: Expr) -> Expr:
    return x


def _for(loop: For) -> Stmt:
    none = isinstance(loop.extent, IntImm) and loop.extent.value <= 0
    return NO_OP if none or is_no_op(loop.body) else loop


def _if(stmt: IfThenElse) -> Stmt:
    otherwise = stmt.else_case
    if otherwise is not None and is_no_op(otherwise):
        otherwise = None
    if isinstance(stmt.condition, IntImm):
        return stmt.then_case if stmt.condition.value else otherwise or NO_OP
    if is_no_op(stmt.then_case) and otherwise is None:
        return NO_OP
    return stmt if otherwise is stmt.else_case else IfThenElse(stmt.condition, stmt.then_case, otherwise)


def _evaluate(stmt: Evaluate) -> Stmt:
    return stmt if isinstance(stmt.value, Call) else NO_OP


def _scope(stmt: Any) -> Stmt:
    return NO_OP if is_no_op(stmt.body) else stmt


_RULES: dict[type, Callable[[Any], Stmt]] = {
    For: _for,
    IfThenElse: _if,
    Evaluate: _evaluate,
    LetStmt: _scope,
    Allocate: _scope,
    DeclBuffer: _scope,
    AttrStmt: _scope,
}
