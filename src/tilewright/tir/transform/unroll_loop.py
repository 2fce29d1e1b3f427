"""Expand loops of kind UNROLLED, and short serial loops under an "unroll" pragma."""

from __future__ import annotations

from typing import Any

from tilewright.support.recursion import nested
from tilewright.tir import op
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.stmt import For, ForKind, PrimFunc, SeqStmt, Stmt, seq
from tilewright.tir.transform.folding import FoldingRewriter
from tilewright.tir.transform.statements import child_stmts, with_fields
from tilewright.tir.visitor import children

MOST_STATEMENTS = 4096  # of one expanded loop; larger ones stay serial, because code that big only misses the cache


def unroll_loop(func: PrimFunc) -> PrimFunc:
    """`func` with a copy of the body for each iteration of the requested loops, the variable substituted.

    A loop is expanded if it is UNROLLED, or serial with the annotation "unroll" and at most that many iterations, its
    extent is constant, and no more than `MOST_STATEMENTS` statements come of it; an UNROLLED loop that is too large
    or has a symbolic extent becomes serial.

        for i in unroll(2):              c[0] = a[0]
            c[i*4] = a[i]        =>      c[4] = a[1]
    """
    return _Unroller(func.body)(func)


class _Unroller(FoldingRewriter):
    """Expands from the outside in, so that each final statement is built once.

    `env` holds the value of each unrolled variable in scope. What is made of an expression is remembered by it and the
    values of the unrolled variables it really depends on, so copies that do not differ are one object.
    """

    def __init__(self, body: Stmt) -> None:
        super().__init__()
        self.unrolled: set[Var] = set()
        self.env: dict[Var, Expr] = {}
        self.depends: dict[Expr, tuple[Var, ...]] = {}
        self.made: dict[tuple[Any, ...], Expr] = {}
        self._measure(body)

    @nested
    def _measure(self, stmt: Stmt) -> int:
        """Statements that `stmt` becomes; notes which loop variables will be substituted."""
        count = sum([self._measure(s) for s in child_stmts(stmt)])
        if type(stmt) is For:
            copies = _copies(stmt)
            if copies is not None and count * copies <= MOST_STATEMENTS:
                self.unrolled.add(stmt.var)
                count *= copies
            else:
                count += 1
        elif type(stmt) is not SeqStmt:
            count += 1
        return count

    def __call__(self, node: Any) -> Any:
        depends = self.depends.get(node)
        if depends is None:
            if not isinstance(node, Expr):
                return super().__call__(node)
            depends = self._depends(node)
        if not depends:
            return node
        if isinstance(node, Var):
            return self.env[node]
        key = (node, *[self.env[v] for v in depends])
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = self._made(node)
        return found

    @nested
    def _made(self, node: Expr) -> Any:
        cls = node.__class__
        return (self._handlers.get(cls) or self._handler(cls))(self, node)

    def visit_For(self, stmt: For) -> Stmt:
        """The copies, or the loop that is not expanded."""
        if stmt.var in self.unrolled:
            return self._expand(stmt)
        loop: For = self.rebuild(stmt)
        return with_fields(loop, kind=ForKind.SERIAL, thread="") if loop.kind is ForKind.UNROLLED else loop

    def _expand(self, loop: For) -> Stmt:
        low = self(loop.min)
        assert isinstance(loop.extent, IntImm)
        copies = []
        for i in range(loop.extent.value):
            self.env[loop.var] = op.add(low, op.const(i, loop.var.dtype))
            copies.append(self(loop.body))
        del self.env[loop.var]
        return seq(*copies)

    @nested
    def _depends(self, x: Expr) -> tuple[Var, ...]:
        found = self.depends.get(x)
        if found is None:
            if isinstance(x, Var):
                found = (x,) if x in self.unrolled else ()
            else:
                found = tuple(dict.fromkeys(v for child in children(x) for v in self._depends(child)))
            self.depends[x] = found
        return found


def _copies(loop: For) -> int | None:
    """The number of copies that `loop` requests, or None if it is to stay a loop."""
    if not isinstance(loop.extent, IntImm):
        return None
    extent = loop.extent.value
    if loop.kind is ForKind.UNROLLED:
        return extent
    limit = loop.annotations.get("unroll", 0)
    if loop.kind is ForKind.SERIAL and limit is not True and isinstance(limit, int) and extent <= limit:
        return extent
    return None
