"""A-normal form: every value is bound by a `Let`, operands are variables and constants, in order of evaluation.

Before: multiply(add(%a, %b), add(%a, %b))                              (the sum is one node)
After:  let %x0 = add(%a, %b); let %x1 = multiply(%x0, %x0); %x1

A value that both branches of an `If` use is bound before it, one that a branch alone uses is bound in that branch.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.functional.scopes import bind_in_scopes, is_atomic


def to_a_normal_form(mod: IRModule) -> IRModule:
    """Bind every value of every function; see the module's docstring."""
    return infer_type(mod.map_functions(lambda func: func.with_body(a_normal_form(func.body))))


def a_normal_form(expr: Expr) -> Expr:
    """One expression in A-normal form."""
    return bind_in_scopes(expr, lambda node, scopes: not is_atomic(node))
