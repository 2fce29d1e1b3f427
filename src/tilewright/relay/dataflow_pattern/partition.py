"""Pieces of a graph made functions, as an external code generator wants them.

Before: nn.relu(nn.conv2d(%x, %w))
After:  fn (%FunctionVar_0, %FunctionVar_1, PartitionedFromPattern="nn.conv2d_nn.relu_") { … }(%x, %w)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewright.relay.dataflow_pattern.matcher import NodeMap, find, users_of
from tilewright.relay.dataflow_pattern.pattern import (
    AltPattern,
    AttrPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    ShapePattern,
    TypePattern,
    VarPattern,
    WildcardPattern,
)
from tilewright.relay.ir.expr import Call, Constant, Expr, Function, Var
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import children, consumers, post_order, rebuild

#: What these match comes from outside, or is inside because another pattern matches it too.
_OUTSIDE = (WildcardPattern, VarPattern, AltPattern, AttrPattern, TypePattern, DataTypePattern, ShapePattern)


def partition(
    pattern: DFPattern,
    expr: Expr,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Expr], bool] = lambda found: True,
) -> Expr:
    """`expr` with each piece that `pattern` matches, and that `check` approves of, made a call of a function.

    Wildcards and variables of the pattern become parameters, constants it names stay inside. Pieces do not overlap:
    those nearer to the result come first. A piece with an inner node that something outside uses is left alone. The
    function has `attrs` and `PartitionedFromPattern`, the operators inside.
    """
    order = post_order(expr)
    users = consumers(order)
    dominated = users_of(pattern, expr)
    taken: set[Expr] = set()
    pieces: dict[Expr, set[Expr]] = {}
    for node in reversed(order):
        found = find(pattern, node, dominated) if node not in taken else None
        if found is None:
            continue
        inside = _inside(found)
        closed = all(user in inside for inner in inside if inner is not node for user in users[inner])
        if node in inside and closed and not inside & taken and check(node):
            pieces[node] = inside
            taken |= inside
    return _rebuilt(order, pieces, attrs or {})[expr]


def _inside(found: NodeMap) -> set[Expr]:
    """The nodes that become part of the function."""
    constants = {node for part, nodes in found.items() if isinstance(part, ConstantPattern) for node in nodes}
    named = {node for part, nodes in found.items() if not isinstance(part, _OUTSIDE) for node in nodes}
    return {node for node in named if not isinstance(node, Constant | Var)} | constants


def _rebuilt(order: list[Expr], pieces: Mapping[Expr, set[Expr]], attrs: Mapping[str, Any]) -> dict[Expr, Expr]:
    done: dict[Expr, Expr] = {}
    for node in order:
        if node in pieces:
            done[node] = _piece(node, pieces[node], done, attrs)
        else:
            done[node] = rebuild(node, tuple([done[kid] for kid in children(node)]))
    return done


def _piece(root: Expr, inside: set[Expr], done: Mapping[Expr, Expr], attrs: Mapping[str, Any]) -> Call:
    """A call of the function that computes `root` from what enters `inside`."""
    params: dict[Expr, Var] = {}
    made: dict[Expr, Expr] = {}
    names: list[str] = []
    for node in [n for n in post_order(root) if n in inside]:
        kids: list[Expr] = []
        for kid in children(node):
            if kid not in inside and kid not in params:
                params[kid] = Var(f"FunctionVar_{len(params)}", kid.inferred_type)
            kids.append(made[kid] if kid in inside else params[kid])
        made[node] = rebuild(node, tuple(kids))
        if isinstance(node, Call) and isinstance(node.op, Op):
            names.append(f"{node.op.name}_")
    label = {"PartitionedFromPattern": "".join(names)}
    func = Function(params.values(), made[root], attrs={**label, **attrs})
    return Call(func, [done[kid] for kid in params])
