"""Effects of expressions: those that touch references or storage, or call what may, do more than compute a value."""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr, Function, RefCreate, RefRead, RefWrite
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import children, post_order


def has_references(*roots: Expr) -> bool:
    """True if a reference or storage is made, read or written anywhere in `roots`, in functions among them too."""
    return any(_touches(node) for node in post_order(*roots))


def _touches(node: Expr) -> bool:
    if isinstance(node, Call) and isinstance(node.op, Op):
        return node.op.effects
    return isinstance(node, RefCreate | RefRead | RefWrite)


def may_have_effects(expr: Expr) -> bool:
    """True if evaluating `expr` may read or write a reference or storage.

    A call of anything but an operator counts as one, since what it calls is not known. The body of a function that is
    only made, not called, does not count. A program without references anywhere has no effects: ask
    `has_references` of all its functions first.
    """
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if _touches(node):
            return True
        if isinstance(node, Call) and not isinstance(node.op, Op) and not _is_primitive(node.op):
            return True
        if not isinstance(node, Function):
            stack.extend(children(node))
    return False


def _is_primitive(callee: object) -> bool:
    return isinstance(callee, Function) and callee.is_primitive
