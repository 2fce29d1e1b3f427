"""Automatic differentiation: a function made into one that returns its result and the gradients of its parameters.

Before: fn (%x, %w) { nn.relu(nn.dense(%x, %w)) }
After:  fn (%x, %w) { let %y = nn.relu(nn.dense(%x, %w)); (%y, (<gradient of %x>, <gradient of %w>)) }

The gradients are those of the sum of all elements of the result. Straight-line functions become straight-line code
(`adjoint.py`); functions with branches, closures, recursion, data types or references are differentiated by
`higher_order_gradient.py`. Either result is an ordinary function, and can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Function, GlobalVar, Tuple, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.gradients.adjoint import adjoints, inline_lets, is_straight_line
from tilewright.relay.transform.gradient.higher_order_gradient import higher_order_gradient

MODES = ("auto", "first_order", "higher_order")


def gradient(
    expr: Function | GlobalVar, mod: IRModule | None = None, mode: str = "auto", wrt: Sequence[Var] | None = None
) -> Function:
    """The function `params -> (result, gradients)` of the function `expr`, which may be one of the module `mod`.

    `gradients` is a tuple with one gradient a parameter, or with `wrt` one for each of these parameters; it is zero
    for a parameter that holds no floating point. `mode` is "first_order" (straight-line code in, straight-line code
    out), "higher_order" (everything), or "auto", which takes the first where it can.

    Raises UnsupportedError where an operator has no gradient, naming its call.
    """
    if mode not in MODES:
        raise UnsupportedError(f"mode {mode!r}; known: {', '.join(MODES)}")
    func = mod[expr] if isinstance(expr, GlobalVar) and mod is not None else expr
    if not isinstance(func, Function):
        raise UnsupportedError(f"a function is needed, not a {type(func).__name__}; pass the module of a GlobalVar")
    targets = list(func.params if wrt is None else wrt)
    foreign = [var.name for var in targets if var not in func.params]
    if foreign:
        raise UnsupportedError(f"{', '.join(foreign)}: no parameter of the function; wrt names parameters")
    if "output_names" in func.attrs:
        func = Function(func.params, func.body, func.ret_type, func.type_params, _more_names(func, targets))
        type_of(func)
    if mode == "higher_order" or (mode == "auto" and not is_straight_line(func.body)):
        return higher_order_gradient(func, mod, targets)
    return first_order_gradient(func, targets)


def _more_names(func: Function, wrt: Sequence[Var]) -> dict[str, Any]:
    """The attributes of `func` with a name for each gradient behind those of its results."""
    names = (*func.attrs["output_names"], *(f"{var.name}:gradient" for var in wrt))
    return {**func.attrs, "output_names": names}


def first_order_gradient(func: Function, wrt: Sequence[Var]) -> Function:
    """`gradient` of a straight-line function with respect to its parameters `wrt`."""
    if func.inferred_type is None:
        type_of(func)
    body = inline_lets(func.body)
    result = Function(func.params, Tuple([body, Tuple(adjoints(body, wrt))]), attrs=func.attrs)
    return infer_type(IRModule.from_expr(result))["main"]
