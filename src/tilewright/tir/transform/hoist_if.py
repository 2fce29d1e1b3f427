"""Move conditions that do not change within a loop out of it."""

from __future__ import annotations

import functools

from tilewright.tir import op
from tilewright.tir.expr import BufferLoad, Expr, Var
from tilewright.tir.stmt import For, ForKind, IfThenElse, PrimFunc, Stmt
from tilewright.tir.transform.affine import split_conjunction
from tilewright.tir.transform.statements import rebind
from tilewright.tir.visitor import StmtRewriter, collect, collect_vars


def hoist_if(func: PrimFunc, parts: bool = False) -> PrimFunc:
    """`func` with `for: if c: body` turned into `if c: for: body` where c reads neither the loop variable nor memory.

        for i in range(16):                 if j < n:
            if j < n:               =>          for i in range(16):
                c[i] = 0                            c[i] = 0

    Only an `if` without `else` that is the whole body moves, so no code is copied. Loops over workers and threads stay
    outermost. With `parts` those of a conjunction move, each as far as it can, and the others stay.
    """
    return _Hoister(parts)(func)


class _Hoister(StmtRewriter):
    def __init__(self, parts: bool) -> None:
        super().__init__()
        self.parts = parts

    def visit_For(self, node: For) -> Stmt:
        """The loop, or its condition around it."""
        loop: For = self.rebuild(node)
        if loop.kind in (ForKind.PARALLEL, ForKind.THREAD_BINDING):
            return loop
        body = loop.body
        if type(body) is not IfThenElse or body.else_case is not None:
            return loop
        conditions = split_conjunction(body.condition) if self.parts else [body.condition]
        moved = [one for one in conditions if _constant_in(one, loop.var)]
        if not moved:
            return loop
        kept = [one for one in conditions if one not in moved]
        inside = IfThenElse(_all(kept), body.then_case) if kept else body.then_case
        return IfThenElse(_all(moved), rebind(loop, loop.var, inside))


def _all(conditions: list[Expr]) -> Expr:
    return functools.reduce(op.logical_and, conditions)


def _constant_in(condition: Expr, var: Var) -> bool:
    return var not in collect_vars(condition) and not collect(condition, BufferLoad)
