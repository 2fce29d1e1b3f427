"""Zeros and ones that a gradient begins with are not made where arithmetic with them is known.

Before: add(multiply(ones_like(%y), %g), zeros_like(%x))
After:  %g

The classic pass carries "this is zero" and "this is one" at run time in a data type; here they are facts of the graph,
so what is left of them when compiling are those that are returned, or read by other operators.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.tensor import ones, zeros
from tilewright.relay.transform.simplify.make import is_call


def lazy_gradient_init(mod: IRModule) -> IRModule:
    """Simplify sums and products with tensors of zeros or ones; values of another shape than the result stay."""
    mod = infer_type(mod)
    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    kind = type_of(node)
    if not isinstance(kind, TensorType):
        return None
    if node.op.fill is not None and node.args:
        return (ones if node.op.fill else zeros)(kind.shape, str(kind.dtype))
    if node.op.commutative and node.op.neutral is not None:
        return _of_binary(node, node.op, kind)
    return node.args[0] if is_call(node, "negative") and _filled_with(node.args[0], 0) else None


def _of_binary(call: Call, op: Op, kind: TensorType) -> Expr | None:
    """A sum with zeros, a product with zeros or ones: the result, or the operand that has its type."""
    a, b = call.args
    if op.absorbing == 0 and (_filled_with(a, 0) or _filled_with(b, 0)):
        return zeros(kind.shape, str(kind.dtype))
    for value, rest in ((a, b), (b, a)):
        if _filled_with(value, op.neutral) and tensor_type_of(rest) == kind:
            return rest
    return None


def _filled_with(expr: Expr, value: float | None) -> bool:
    """True for a tensor filled with `value`, however it is made."""
    if isinstance(expr, Constant):
        return bool(expr.data.size) and expr.data.dtype.kind in "fiu" and bool((expr.data == value).all())
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.fill is not None and expr.op.fill == value
