"""Move conditions that do not change within a loop out of it."""

from __future__ import annotations

from tilewright.tir.expr import BufferLoad, Expr, Var
from tilewright.tir.stmt import For, ForKind, IfThenElse, PrimFunc, Stmt
from tilewright.tir.transform.statements import rebind
from tilewright.tir.visitor import StmtRewriter, collect, collect_vars


def hoist_if(func: PrimFunc) -> PrimFunc:
    """`func` with `for: if c: body` turned into `if c: for: body` where c reads neither the loop variable nor memory.

        for i in range(16):                 if j < n:
            if j < n:               =>          for i in range(16):
                c[i] = 0                            c[i] = 0

    Only an `if` without `else` that is the whole body moves, so no code is copied. Loops over workers and threads stay
    outermost.
    """
    return _Hoister()(func)


class _Hoister(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """The loop, or its condition around it."""
        loop: For = self.rebuild(node)
        if loop.kind in (ForKind.PARALLEL, ForKind.THREAD_BINDING):
            return loop
        body = loop.body
        if type(body) is not IfThenElse or body.else_case is not None or not _constant_in(body.condition, loop.var):
            return loop
        return IfThenElse(body.condition, rebind(loop, loop.var, body.then_case))


def _constant_in(condition: Expr, var: Var) -> bool:
    return var not in collect_vars(condition) and not collect(condition, BufferLoad)
