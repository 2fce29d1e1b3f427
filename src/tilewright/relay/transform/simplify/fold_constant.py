"""Constant folding: a call whose arguments are all constants becomes its value, found by the operator's reference.

Before: multiply(%x, sqrt(4f))
After:  multiply(%x, 2f)

A value that is larger than its inputs and than `limit` stays a call: a broadcast of one number to a large tensor is
cheaper to compute again than to store and read. The weights of a Winograd convolution are stored all the same: its
kernels read nothing else.
"""

from __future__ import annotations

from typing import Any

from tilewright.relay.ir.call_reference import call_reference
from tilewright.relay.ir.expr import Call, Constant, Expr, If, Tuple, TupleGetItem
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.symbolic import attr_exprs
from tilewright.relay.ir.type import tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import rewrite

#: Bytes up to which a folded value may be larger than the constants it is made of.
LIMIT = 1 << 20

#: A limit that is none.
ANY_SIZE = 1 << 62


def fold_constant(mod: IRModule, limit: int = LIMIT) -> IRModule:
    """Evaluate what depends on constants only; see the module's docstring."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if isinstance(node, If) and isinstance(node.cond, Constant):
            return node.true_branch if node.cond.data else node.false_branch
        if isinstance(node, Call) and isinstance(node.op, Op):
            return fold_call(node, limit)
        return None

    return mod.map_functions(lambda func: func.with_body(rewrite(func.body, rule)))


def fold_call(call: Call, limit: int = LIMIT) -> Expr | None:
    """The value of `call` as a constant (or tuple of constants); None if it is not constant or would grow too large."""
    if isinstance(call.op, Op) and call.op.effects:
        return None
    values = [_constant_value(arg) for arg in call.args]
    symbolic = next(attr_exprs(call.attrs), None) is not None  # a range from such a size on may have a static length
    if symbolic or any(value is None for value in values):
        return None
    results = tensor_types(type_of(call))
    if not all(t.is_static for t in results):
        return None
    size = sum(t.nbytes for t in results)
    grows = size > limit and size > sum(t.nbytes for arg in call.args for t in tensor_types(type_of(arg)))
    if grows and not (isinstance(call.op, Op) and call.op.always_folded):
        return None
    return _constant(call_reference(call, values))


def _constant_value(expr: Expr) -> Any:
    """The array or tuple of arrays of a constant expression, else None."""
    if isinstance(expr, Constant):
        return expr.data
    if isinstance(expr, Tuple):
        fields = [_constant_value(field) for field in expr.fields]
        return None if any(field is None for field in fields) else tuple(fields)
    return None


def _constant(value: Any) -> Expr:
    if isinstance(value, tuple):
        return Tuple([_constant(item) for item in value])
    return Constant(value)
