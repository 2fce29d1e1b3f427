"""Regions of a run loop: what workers share between two meetings, how, and the loop as a function of the region."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.runtime.native import Kind
from tilewright.tir import op
from tilewright.tir.expr import Call
from tilewright.tir.stmt import Evaluate, IfThenElse, PrimFunc, SeqStmt, Stmt, seq
from tilewright.tir.transform.statements import walk


def kind_of(func: PrimFunc) -> Kind:
    """The division of a kernel's work among workers."""
    if any(type(s) is Evaluate and isinstance(s.value, Call) and s.value.op == "barrier" for s in walk(func.body)):
        return "meeting"
    return "shared" if func.attrs.get("parallel", True) else "alone"


def regions_of(func: PrimFunc) -> list[tuple[Kind, Stmt]]:
    """The regions of a run loop, calls with barriers between: what one worker does alone in a row is one region."""
    parts = func.body.stmts if isinstance(func.body, SeqStmt) else (func.body,)
    found: list[tuple[Kind, Stmt]] = []
    for kind, call in zip(func.attrs["regions"], parts[::2], strict=False):  # a loop without calls has a body
        if found and kind == found[-1][0] == "alone":
            found[-1] = kind, seq(found[-1][1], call)
        else:
            found.append((kind, call))
    return found


def by_region(func: PrimFunc) -> PrimFunc:
    """A run loop as a function of the one region whose number `region_id()` is."""
    bodies = [body for _, body in regions_of(func)]
    return func.with_body(_chosen(bodies, 0)) if bodies else func


def _chosen(bodies: Sequence[Stmt], first: int) -> Stmt:
    """The one of `bodies` whose number it is; the first of them has the number `first`."""
    if len(bodies) == 1:
        return bodies[0]
    half = len(bodies) // 2
    is_early = op.less(Call("int32", "region_id", ()), first + half)
    return IfThenElse(is_early, _chosen(bodies[:half], first), _chosen(bodies[half:], first + half))
