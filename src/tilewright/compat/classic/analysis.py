"""`relay.analysis`: questions about expressions, over this package's walkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import relay
from tilewright.relay.cost import flops
from tilewright.relay.type import FuncType, Type, TypeVar, walk_type
from tilewright.relay.visitor import binders, calls, post_order


def post_order_visit(expr: relay.Expr, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` on every node of `expr`, operands before users; the operators called are among them."""
    seen: set[Any] = set()
    for node in post_order(expr):
        for one in ([node.op] if isinstance(node, relay.Call) and not isinstance(node.op, relay.Expr) else []) + [node]:
            if one not in seen:
                seen.add(one)
                fvisit(one)


def well_formed(expr: relay.Expr | relay.IRModule) -> bool:
    """True if no variable is bound twice."""
    roots = list(expr.functions.values()) if isinstance(expr, relay.IRModule) else [expr]
    bound = [var for root in roots for node in post_order(root) for var in binders(node)]
    return len(bound) == len(set(bound))


def all_type_vars(subject: Any, mod: Any = None) -> list[TypeVar]:
    """The type variables of an expression or type, each once."""
    return list(dict.fromkeys([*bound_type_vars(subject), *_mentioned(subject)]))


def bound_type_vars(subject: Any, mod: Any = None) -> list[TypeVar]:
    """The type variables that the functions, or function types, of `subject` bind."""
    found: list[TypeVar] = []
    for type_ in _types(subject):
        found += [var for part in walk_type(type_) if isinstance(part, FuncType) for var in part.type_params]
    if isinstance(subject, relay.Expr):
        found += [v for node in post_order(subject) if isinstance(node, relay.Function) for v in node.type_params]
    return list(dict.fromkeys(found))


def free_type_vars(subject: Any, mod: Any = None) -> list[TypeVar]:
    """The type variables of `subject` that nothing in it binds."""
    bound = bound_type_vars(subject)
    return [var for var in _mentioned(subject) if var not in bound]


def _mentioned(subject: Any) -> list[TypeVar]:
    parts = [part for type_ in _types(subject) for part in walk_type(type_)]
    return list(dict.fromkeys([part for part in parts if isinstance(part, TypeVar)]))


def _types(subject: Any) -> list[Type]:
    """A type itself, or all types written down in an expression."""
    if isinstance(subject, Type):
        return [subject]
    found: list[Type | None] = []
    for node in post_order(subject):
        found += [var.type_annotation for var in ([node] if isinstance(node, relay.Var) else binders(node))]
        if isinstance(node, relay.Function):
            found.append(node.ret_type)
    return [type_ for type_ in found if type_ is not None]


def get_total_mac_number(expr: relay.Expr) -> int:
    """Multiplications with addition in the convolutions and products of a typed expression."""
    heavy = ("nn.conv", "nn.dense", "nn.batch_matmul", "nn.matmul")
    root = expr.body if isinstance(expr, relay.Function) else expr
    return sum(flops(call) // 2 for call in calls(root) if str(getattr(call.op, "name", "")).startswith(heavy))
