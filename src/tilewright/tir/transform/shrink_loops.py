"""Let a loop end where its guard does, for tails of symbolic extents."""

from __future__ import annotations

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.expr import Call, Expr
from tilewright.tir.stmt import For, ForKind, IfThenElse, PrimFunc, Stmt
from tilewright.tir.transform.affine import Guard, read_guard, split_conjunction
from tilewright.tir.transform.statements import walk, with_fields
from tilewright.tir.visitor import StmtRewriter


def shrink_loops(func: PrimFunc) -> PrimFunc:
    """`func` with the guards of serial loops turned into the loops' extents where they depend on symbolic sizes.

        for yi in range(8):                         for yi in range(min(8, n - yo*8)):
            if likely(yo*8 + yi < n):       =>          c[yo*8 + yi] = 0
                c[yo*8 + yi] = 0

    Only a guard that is the whole body and knows of no loop inside. `loop_partition` treats those of constant sizes.
    """
    return _Shrinker()(func)


class _Shrinker(StmtRewriter):
    def visit_For(self, node: For) -> Stmt:
        """The loop, as long as its guard holds."""
        return _shrink(self.rebuild(node))


def _shrink(stmt: For) -> Stmt:
    if stmt.kind is not ForKind.SERIAL or type(stmt.body) is not IfThenElse:
        return stmt
    if stmt.body.else_case is not None or not op.is_const(stmt.min, 0):
        return stmt
    inside = {s.var for s in walk(stmt.body) if isinstance(s, For)}
    extent, kept = stmt.extent, op.const(True)
    for part in split_conjunction(stmt.body.condition):
        guard = read_guard(part.args[0]) if isinstance(part, Call) and part.op == "likely" else None
        room = None if guard is None or inside & {atom for atom, _ in guard.terms} else _room(guard, stmt)
        if room is None:
            kept = op.logical_and(kept, part)
        else:
            extent = op.minimum(extent, room)
    if extent is stmt.extent:
        return stmt
    body = stmt.body.then_case if op.is_const(kept, 1) else IfThenElse(kept, stmt.body.then_case)
    return with_fields(stmt, extent=extent, body=body)


def _room(guard: Guard, loop: For) -> Expr | None:
    """The number of iterations from 0 on that satisfy `guard`, where a symbolic size bounds the loop variable from
    above.
    """
    terms = dict(guard.terms)
    if terms.pop(loop.var, 0) != 1 or all(factor > 0 for factor in terms.values()):
        return None
    room: Expr = op.const(1 - guard.constant, loop.var.dtype)
    for atom, factor in terms.items():
        room = room - atom * factor
    return Analyzer().simplify(room)
