"""Algebraic simplification by the rules of `algebra_rules` and `shape_rules`, applied bottom up until none applies.

Before: nn.relu(reshape(reshape(multiply(%x, 1f), newshape=[4]), newshape=[2, 2]))     (%x has shape [2, 2])
After:  nn.relu(%x)

A floating point result may differ in the last bit where constants combine; `x + 0 -> x` takes -0.0 + 0.0 for -0.0.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import children, rewrite
from tilewright.relay.transform.simplify import algebra_rules, shape_rules
from tilewright.relay.transform.simplify.algebra_rules import Rule

#: Rewrites of one node after which something is wrong with the rules.
_STEPS = 64


def simplify_expr(mod: IRModule) -> IRModule:
    """Apply the simplification rules to every function; see the module's docstring."""
    return mod.map_functions(lambda func: func.with_body(_to_fixed_point(func.body)))


def _to_fixed_point(root: Expr) -> Expr:
    """A rule may make new calls below the node it replaces, which the next round sees."""
    for _ in range(_STEPS):
        simplified = rewrite(root, simplify_node)
        if simplified is root:
            break
        root = simplified
    return root


def simplify_node(node: Expr) -> Expr | None:
    """`node` simplified by the first rules that apply, whose operands are simple already; None if none does."""
    current = node
    for _ in range(_STEPS):
        replacement = _apply_one(current)
        if replacement is None:
            break
        current = replacement
        if not children(current):
            break
    return None if current is node else current


def _apply_one(node: Expr) -> Expr | None:
    if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
        return node.tuple_value.fields[node.index]
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    for rule in rules_of(node.op):
        replacement = rule(node)
        if replacement is not None:
            return replacement
    return None


def rules_of(op: Op) -> tuple[Rule, ...]:
    """All rules for calls of `op`, in the order they are tried."""
    found = _RULES_OF.get(op)
    if found is None:
        found = _RULES_OF[op] = algebra_rules.rules_of(op) + shape_rules.rules_of(op)
    return found


_RULES_OF: dict[Op, tuple[Rule, ...]] = {}
