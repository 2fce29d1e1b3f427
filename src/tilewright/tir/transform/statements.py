"""Small questions about statements that several passes ask, and statements with other fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from tilewright.tir.expr import Var
from tilewright.tir.stmt import For, SeqStmt, Stmt
from tilewright.tir.visitor import children

S = TypeVar("S", bound=Stmt)
NO_OP = SeqStmt(())


def with_fields(stmt: S, **changes: Any) -> S:
    """`stmt` with the named fields replaced."""
    return type(stmt)(*[changes.get(name, getattr(stmt, name)) for name in stmt.FIELDS]).at(stmt.position)


def child_stmts(stmt: Stmt) -> list[Stmt]:
    """Direct child statements, in execution order."""
    return [child for child in children(stmt) if isinstance(child, Stmt)]


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
