"""The variables that a function takes from around it."""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr, Function, Var
from tilewright.relay.ir.visitor import binders, children


def captured_vars(function: Function) -> list[Var]:
    """Variables that `function` uses and does not bind itself, in order of first use; iterative."""
    bound: set[Var] = set(function.params)
    used: dict[Var, None] = {}
    seen: set[Expr] = set()
    stack: list[Expr] = [function.body]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        bound.update(binders(node))
        if isinstance(node, Var):
            used[node] = None
        stack.extend(reversed(children(node)))
    return [var for var in used if var not in bound]
