"""Dead code: bindings that nothing reads, fields taken of a known tuple, and functions that nothing calls.

Before: let %a = exp(%x); (%x, %y).1
After:  %y

A call outside a `Let` that nothing uses is not part of the graph at all, so there is nothing to remove.
"""

from __future__ import annotations

from tilewright.relay.expr import Expr, Function, GlobalVar, Let, Tuple, TupleGetItem
from tilewright.relay.module import IRModule
from tilewright.relay.visitor import global_vars, post_order, rewrite


def dead_code(mod: IRModule) -> IRModule:
    """Drop unused `Let` bindings, look through tuples, and keep only the functions reachable from `main`."""
    mod = mod.map_functions(lambda func: func.with_body(_clean(func.body)))
    if "main" not in mod:
        return mod
    live: dict[GlobalVar, Function] = {}
    pending = [mod.global_var("main")]
    while pending:
        gvar = pending.pop()
        if gvar not in live:
            live[gvar] = mod[gvar]
            pending += global_vars(mod[gvar].body)
    return mod if len(live) == len(mod.functions) else mod.with_functions(live)


def _clean(root: Expr) -> Expr:
    """To a fixed point: removing a binding may make the one before it unused."""
    while True:
        used = set(post_order(root))
        cleaned = rewrite(root, lambda node, used=used: _rule(node, used))  # type: ignore[misc]
        if cleaned is root:
            return root
        root = cleaned


def _rule(node: Expr, used: set[Expr]) -> Expr | None:
    if isinstance(node, Let) and node.var not in used:
        return node.body
    if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
        return node.tuple_value.fields[node.index]
    return None
