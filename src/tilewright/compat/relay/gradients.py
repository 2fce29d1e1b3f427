"""`relay.transform.gradient`: of a tuple the classic stack differentiates the first field, but in first order.

Our own `gradient` is that of the sum of all fields, which the classic mode "first_order" is, too.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Function, GlobalVar
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TupleType
from tilewright.relay.transform.gradient import gradient as own
from tilewright.relay.transform.gradient.higher_order_gradient import higher_order_gradient


def gradient(expr: Function | GlobalVar, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """The function `params -> (result, gradients)` of the function `expr`, which may be one of the module `mod`."""
    func = mod[expr] if isinstance(expr, GlobalVar) and mod is not None else expr
    if mode == "higher_order" and isinstance(func, Function):
        typed = infer_type((mod or IRModule()).with_function("gradient of", func))["gradient of"]
        if isinstance(typed.func_type.ret_type, TupleType):
            return higher_order_gradient(func, mod, list(func.params), first_field=True)
    # straight-line code where it can be: the same numbers without references and closures
    return own.gradient(expr, mod, mode="auto" if mode == "higher_order" else mode)
