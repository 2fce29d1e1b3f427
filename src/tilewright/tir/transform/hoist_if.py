"""Move conditions that do not change within a loop out of it."""

from __future__ import annotations

from tilewright.tir import expr as e
from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import For, ForKind, IfThenElse, PrimFunc, Stmt
from tilewright.tir.transform.folding import map_children
from tilewright.tir.transform.statements import map_stmt, rebind


def hoist_if(func: PrimFunc) -> PrimFunc:
    """`func` with `for: if c: body` turned into `if c: for: body` where c reads neither the loop variable nor memory.

        for i in range(16):                 if j < n:
            if j < n:               =>          for i in range(16):
                c[i] = 0                            c[i] = 0

    Only an `if` without `else` that is the whole body moves, so no code is copied. Loops over workers and threads stay
    outermost.
    """
    return func.with_body(_hoist(func.body))


def _hoist(stmt: Stmt) -> Stmt:
    stmt = map_stmt(stmt, _hoist, lambda x: x)
    if type(stmt) is not For or stmt.kind in (ForKind.PARALLEL, ForKind.THREAD_BINDING):
        return stmt
    body = stmt.body
    if type(body) is not IfThenElse or body.else_case is not None or not _constant_in(body.condition, stmt.var):
        return stmt
    return IfThenElse(body.condition, rebind(stmt, stmt.var, body.then_case))


def _constant_in(condition: Expr, var: Var) -> bool:
    seen: set[Expr] = set()

    def visit(x: Expr) -> Expr:
        if x not in seen:
            seen.add(x)
            map_children(x, visit)
        return x

    visit(condition)
    return var not in seen and not any(isinstance(x, e.BufferLoad) for x in seen)
