"""The dataflow of a graph seen as calls of operators, and the tree of their immediate post-dominators.

A call's immediate post-dominator is the first call that every path from its value to the result goes through: the only
node that its value can be fused to without being computed twice. Tuples and fields of tuples are looked through.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tilewright.relay.ir.expr import Call, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type import Type, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children
from tilewright.support.recursion import nested
from tilewright.tir.size_hint import size_hint


@dataclass(eq=False)
class Flow:
    """Calls of operators, who uses them, and where the uses meet. A user of None is the world outside the calls."""

    order: list[Call] = field(default_factory=list)
    ops: dict[Call, Op] = field(default_factory=dict)
    patterns: dict[Call, OpPattern] = field(default_factory=dict)
    position: dict[Call, int] = field(default_factory=dict)
    size: dict[Call, int] = field(default_factory=dict)
    users: dict[Call, list[Call | None]] = field(default_factory=dict)
    edges: dict[Call, list[OpPattern]] = field(default_factory=dict)
    dominator: dict[Call, Call | None] = field(default_factory=dict)
    path_pattern: dict[Call, OpPattern] = field(default_factory=dict)


def build_flow(nodes: list[Expr], result: Expr, patterns: Mapping[str, OpPattern] = MappingProxyType({})) -> Flow:
    """The flow of `nodes` (a post-order whose types are known), of which `result` is what is returned.

    `patterns` are categories of operators by name in place of their own.
    """
    flow = Flow()
    for node in nodes:
        if isinstance(node, Call) and isinstance(node.op, Op):
            flow.position[node] = len(flow.order)
            flow.order.append(node)
            flow.ops[node] = node.op
            flow.patterns[node] = patterns.get(node.op.name, node.op.pattern)
            flow.size[node] = max(1, sum(size_hint(t.size) for t in tensor_types(node.checked_type)))
            flow.users[node], flow.edges[node] = [], []
            for arg in node.args:
                for value in _leaves(arg):
                    _add_edge(flow, value, node)
        elif not isinstance(node, Tuple | TupleGetItem):
            for kid in children(node):
                _add_exits(flow, kid)
    _add_exits(flow, result)
    _find_dominators(flow)
    return flow


@nested
def _leaves(expr: Expr) -> list[Expr]:
    """The values a tuple is made of, or `expr` itself."""
    return [leaf for kid in expr.fields for leaf in _leaves(kid)] if isinstance(expr, Tuple) else [expr]


def _add_edge(flow: Flow, value: Expr, user: Call) -> None:
    producer = value.tuple_value if isinstance(value, TupleGetItem) else value
    if isinstance(producer, Call) and producer in flow.users:
        flow.users[producer].append(user)
        flow.edges[producer].append(_edge_pattern(flow.patterns[user], type_of(value), user.checked_type))


def _add_exits(flow: Flow, expr: Expr) -> None:
    for value in _leaves(expr):
        producer = value.tuple_value if isinstance(value, TupleGetItem) else value
        if isinstance(producer, Call) and producer in flow.users:
            flow.users[producer].append(None)
            flow.edges[producer].append(OpPattern.OPAQUE)


def _edge_pattern(user: OpPattern, value: Type, result: Type) -> OpPattern:
    """The pattern of reading an operand: a broadcast operator reads one of the result's shape element by element."""
    if user == OpPattern.BROADCAST:
        same = [t.shape for t in tensor_types(value)] == [t.shape for t in tensor_types(result)]
        return OpPattern.ELEMWISE if same else OpPattern.BROADCAST
    return user


def _find_dominators(flow: Flow) -> None:
    """Users come after producers, so walking backwards meets every user first."""
    depth: dict[Call, int] = {}
    for call in reversed(flow.order):
        pattern = OpPattern.ELEMWISE
        meet: Call | None = None
        for index, (user, edge) in enumerate(zip(flow.users[call], flow.edges[call], strict=True)):
            pattern = max(pattern, edge)
            if index == 0:
                meet = user
                continue
            a, b = meet, user
            while a is not b:
                if b is None or (a is not None and depth[a] >= depth[b]):
                    assert a is not None
                    pattern = max(pattern, flow.path_pattern[a])
                    a = flow.dominator[a]
                else:
                    pattern = max(pattern, flow.path_pattern[b])
                    b = flow.dominator[b]
            meet = a
        flow.dominator[call] = meet
        flow.path_pattern[call] = pattern
        depth[call] = 1 + (0 if meet is None else depth[meet])
