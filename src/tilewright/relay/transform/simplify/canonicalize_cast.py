"""Casts to a wider type are repeated for each of their readers, so that each fuses with its own.

Before: %0 = cast(%x, dtype="int32"); (add(%0, %a), multiply(%0, %b))        (%x is int8, one cast for two kernels)
After:  (add(cast(%x, dtype="int32"), %a), multiply(cast(%x, dtype="int32"), %b))

A shared cast would be a kernel of its own that writes the wide tensor to memory; a cast fused into its reader costs an
instruction. Run it right before `fuse_ops`: `eliminate_common_subexpr` merges the casts again.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import children, consumers, post_order, rewrite
from tilewright.relay.transform.simplify.make import is_call


def canonicalize_cast(mod: IRModule) -> IRModule:
    """Add for each fusable reader of a widening cast a cast of its own; see the module's docstring."""
    return infer_type(mod).map_functions(lambda func: func.with_body(_transform(func.body)))


def _transform(root: Expr) -> Expr:
    users = consumers(post_order(root))

    def shared_cast(expr: Expr) -> bool:
        return is_call(expr, "cast") and len(users.get(expr, ())) > 1 and _widens(expr)

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.pattern > OpPattern.INJECTIVE:
            return None
        if not any(shared_cast(arg) for arg in node.args):
            return None
        args = [_copy(arg) if shared_cast(arg) else arg for arg in node.args]
        return Call(node.op, args, node.attrs, node.span)

    return rewrite(root, rule)


def _widens(cast: Expr) -> bool:
    (data,) = children(cast)
    return tensor_type_of(data).dtype.itemsize < tensor_type_of(cast).dtype.itemsize


def _copy(expr: Expr) -> Expr:
    assert isinstance(expr, Call)
    return Call(expr.op, expr.args, expr.attrs, expr.span)
