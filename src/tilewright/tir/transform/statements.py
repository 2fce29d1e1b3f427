"""Rebuilding a statement from changed parts, and small questions about statements that several passes ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tilewright.tir.expr import Expr, Var
from tilewright.tir.stmt import BufferStore, For, SeqStmt, Stmt, seq
from tilewright.tir.transform.folding import FoldingRewriter, same

S = TypeVar("S", bound=Stmt)
NO_OP = SeqStmt(())


def map_stmt(stmt: Stmt, on_stmt: Callable[[Stmt], Stmt], on_expr: Callable[[Expr], Expr]) -> Stmt:
    """`stmt` with `on_stmt` applied to its child statements and `on_expr` to its expressions (bound variables stay).

    The same object if nothing changed; sequences are flattened.
    """
    if type(stmt) is SeqStmt:
        parts = tuple([on_stmt(s) for s in stmt.stmts])
        return stmt if same(parts, stmt.stmts) else seq(*parts)
    if type(stmt) is BufferStore:  # by far the most frequent
        assert isinstance(stmt, BufferStore)
        value, indices = on_expr(stmt.value), tuple([on_expr(i) for i in stmt.indices])
        if value is stmt.value and same(indices, stmt.indices):
            return stmt
        return BufferStore(stmt.buffer, value, indices).at(stmt.position)
    values, changed = [], False
    for name in stmt.FIELDS:
        old = getattr(stmt, name)
        new: Any = old
        if name == "var":
            pass
        elif isinstance(old, Expr):
            new = on_expr(old)
        elif isinstance(old, Stmt):
            new = on_stmt(old)
        values.append(new)
        changed = changed or new is not old
    return type(stmt)(*values).at(stmt.position) if changed else stmt


def with_fields(stmt: S, **changes: Any) -> S:
    """`stmt` with the named fields replaced."""
    return type(stmt)(*[changes.get(name, getattr(stmt, name)) for name in stmt.FIELDS]).at(stmt.position)


def child_stmts(stmt: Any) -> list[Stmt]:
    """Direct child statements, in execution order."""
    if type(stmt) is SeqStmt:
        return list(stmt.stmts)
    if type(stmt) is BufferStore:
        return []
    values = [getattr(stmt, name) for name in stmt.FIELDS]
    return [v for v in values if isinstance(v, Stmt)]


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """`stmt` and all statements below it, parents first."""
    stack = [stmt]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(child_stmts(top)))


def is_no_op(stmt: Stmt) -> bool:
    """True for the empty sequence."""
    return type(stmt) is SeqStmt and not stmt.stmts


def rebind(loop: For, var: Var, body: Stmt) -> For:
    """`loop` over `var` with `body`, all else kept."""
    return with_fields(loop, var=var, body=body)


def substitute_var(stmt: Stmt, var: Var, value: Expr) -> Stmt:
    """`stmt` with `var` replaced by `value` and constants folded."""
    rewriter = FoldingRewriter()
    rewriter.memo[var] = value
    return rewriter(stmt)
