"""Dead code: bindings that nothing reads, fields taken of a known tuple, and functions that nothing reaches.

Before: let %a = exp(%x); (%x, %y).1
After:  %y

A call outside a `Let` that nothing uses is not part of the graph at all, so there is nothing to remove. A binding whose
value reads or writes references stays.
"""

from __future__ import annotations

from collections import Counter

from tilewright.relay.ir.expr import Expr, Let, Tuple, TupleGetItem, Var
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children, post_order, rewrite, substitute
from tilewright.relay.op.effects import has_references, may_have_effects
from tilewright.relay.transform.simplify.remove_unused_functions import remove_unused_functions


def dead_code(mod: IRModule, inline_once: bool = False) -> IRModule:
    """Drop unused `Let` bindings, look through tuples, and keep only the functions reachable from `main`.

    With `inline_once` a value that is read once moves to its reader, unless it reads or writes references.
    """
    effects = has_references(*[func.body for func in mod.functions.values()])
    mod = mod.map_functions(lambda func: func.with_body(_clean(func.body, effects)))
    if inline_once:
        mod = mod.map_functions(lambda func: func.with_body(_inlined(func.body, effects)))
    return remove_unused_functions(mod) if "main" in mod else mod


def _clean(root: Expr, effects: bool) -> Expr:
    live = _live(root, effects)

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Let) and node.var not in live and not (effects and may_have_effects(node.value)):
            return node.body
        if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        return None

    return rewrite(root, rule)


def _inlined(root: Expr, effects: bool) -> Expr:
    """`root` without the bindings of values that are read once; bindings further out are looked at first."""
    nodes = post_order(root)
    reads = Counter(kid for node in nodes for kid in children(node))
    values: dict[Expr, Expr] = {}
    for node in reversed(nodes):
        if isinstance(node, Let) and reads[node.var] == 1 and not (effects and may_have_effects(node.value)):
            values[node.var] = substitute(node.value, values)
    kept = rewrite(root, lambda node: node.body if isinstance(node, Let) and node.var in values else None)
    return substitute(kept, values)


def _live(root: Expr, effects: bool) -> set[Var]:
    """The variables that the value of `root`, or an effect on the way to it, depends on."""
    bound = {node.var: node.value for node in post_order(root) if isinstance(node, Let)}
    live: set[Var] = set()
    seen: set[Expr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Let):
            stack.append(node.body)
            if effects and may_have_effects(node.value):
                stack.append(node.value)
        elif isinstance(node, Var) and node in bound:
            live.add(node)
            stack.append(bound[node])
        elif isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
            stack.append(node.tuple_value.fields[node.index])
        else:
            stack.extend(children(node))
    return live
