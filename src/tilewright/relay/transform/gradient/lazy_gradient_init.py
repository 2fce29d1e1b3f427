"""Zeros and ones that a gradient begins with are not made where arithmetic with them is known.

Before: add(multiply(ones_like(%y), %g), zeros_like(%x))
After:  %g

The classic pass carries "this is zero" and "this is one" at run time in a data type; here they are facts of the graph,
so what is left of them when compiling are those that are returned, or read by other operators.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.tensor import ones, zeros


def lazy_gradient_init(mod: IRModule) -> IRModule:
    """Simplify sums and products with tensors of zeros or ones; values of another shape than the result stay."""
    mod = infer_type(mod)
    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    rule = _RULES.get(node.op.name)
    kind = type_of(node)
    return rule(node, kind) if rule is not None and isinstance(kind, TensorType) else None


def _is(expr: Expr, name: str, value: int) -> bool:
    """True for a tensor filled with `value`, however it is made."""
    if isinstance(expr, Constant):
        return bool(expr.data.size) and expr.data.dtype.kind in "fiu" and bool((expr.data == value).all())
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in (name, f"{name}_like")


def _other(call: Call, kind: TensorType, neutral: Callable[[Expr], bool]) -> Expr | None:
    """The operand that is the result if the other is `neutral`, and it has the result's type."""
    a, b = call.args
    for value, rest in ((a, b), (b, a)):
        if neutral(value) and tensor_type_of(rest) == kind:
            return rest
    return None


def _sum(call: Call, kind: TensorType) -> Expr | None:
    return _other(call, kind, lambda value: _is(value, "zeros", 0))


def _product(call: Call, kind: TensorType) -> Expr | None:
    if any(_is(arg, "zeros", 0) for arg in call.args):
        return zeros(kind.shape, str(kind.dtype))
    return _other(call, kind, lambda value: _is(value, "ones", 1))


def _filled(make: Callable[..., Expr]) -> Callable[[Call, TensorType], Expr]:
    return lambda _call, kind: make(kind.shape, str(kind.dtype))


_RULES: dict[str, Callable[[Call, TensorType], Expr | None]] = {
    "add": _sum,
    "multiply": _product,
    "zeros_like": _filled(zeros),
    "ones_like": _filled(ones),
    "negative": lambda call, kind: call.args[0] if _is(call.args[0], "zeros", 0) else None,
}
