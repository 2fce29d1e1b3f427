"""Composite operators replaced by the operators they are written in, before any other pass looks at the graph.

Before: nn.upsampling(%x, scale_h=2, scale_w=2)
After:  image.resize2d(%x, size=(8, 8), …)
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import calls, rewrite
from tilewright.relay.op.composite import expand_call


def expand_operators(mod: IRModule) -> IRModule:
    """Replace every call of an operator that has an `expansion`, again within what it expands to."""
    mod = infer_type(mod)
    return mod.map_functions(_expand_function)


def _expand_function(func: Function) -> Function:
    return func.with_body(expand_expr(func.body))


def expand_expr(expr: Expr) -> Expr:
    """`expr` with the calls of composite operators expanded; the same object if there are none."""
    while any(is_composite(call) for call in calls(expr)):
        expr = rewrite(expr, _expand)
    return expr


def is_composite(expr: Expr) -> bool:
    """True for a call of an operator that is written in others."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.expansion is not None


def _expand(expr: Expr) -> Expr | None:
    if not is_composite(expr):
        return None
    assert isinstance(expr, Call)
    for arg in expr.args:
        type_of(arg)
    return _with_span(expand_call(expr), expr)


def _with_span(expanded: Expr, call: Call) -> Expr:
    """The calls of an expansion carry the name of the source node of the call they stand for."""
    if not call.span:
        return expanded
    known = {id(arg) for arg in call.args}

    def mark(node: Expr) -> Expr | None:
        if isinstance(node, Call) and not node.span and id(node) not in known:
            return Call(node.op, node.args, node.attrs, call.span)
        return None

    return rewrite(expanded, mark, {arg: arg for arg in call.args})
