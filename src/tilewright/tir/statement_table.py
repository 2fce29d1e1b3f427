"""The code generators' table from statement class to emitter, and the statements that need no code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.tir import stmt as s

#: Emits a statement into a builder of functions.
Emit = Callable[[Any, Any], None]


def statement_table(
    statement: Emit,
    *,
    store: Emit,
    evaluate: Emit,
    let: Emit,
    check: Emit,
    allocate: Emit,
    declare: Emit,
    branch: Emit,
    loop: Emit,
    while_loop: Emit,
) -> dict[type, Emit]:
    """The emitter of each class of statement; sequences and attributes are what `statement` makes of their parts."""

    def sequence(b: Any, stmt: s.SeqStmt) -> None:
        for part in stmt.stmts:
            statement(b, part)

    return {
        s.SeqStmt: sequence,
        s.AttrStmt: lambda b, stmt: statement(b, stmt.body),
        s.BufferStore: store,
        s.Evaluate: evaluate,
        s.LetStmt: let,
        s.AssertStmt: check,
        s.Allocate: allocate,
        s.DeclBuffer: declare,
        s.IfThenElse: branch,
        s.For: loop,
        s.While: while_loop,
    }
