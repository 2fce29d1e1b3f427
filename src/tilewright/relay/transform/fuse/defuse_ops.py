"""The inverse of `fuse_ops`: calls of primitive functions are replaced by the calls inside them.

Before: %0 = fn (%p0, %p1, Primitive=1) { nn.relu(add(%p0, %p1)) }; %0(%x, %b)
After:  nn.relu(add(%x, %b))
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import rewrite, substitute


def defuse_ops(mod: IRModule) -> IRModule:
    """Put the bodies of primitive functions where they are called; see the module's docstring."""
    return mod.map_functions(lambda func: func.with_body(rewrite(func.body, _rule)))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Function) or "Primitive" not in node.op.attrs:
        return None
    return substitute(node.op.body, dict(zip(node.op.params, node.args, strict=True)))
