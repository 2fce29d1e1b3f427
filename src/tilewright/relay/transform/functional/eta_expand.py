"""Names of functions and constructors that are passed on as values become functions that call them.

Before: @map(Cons, %x)
After:  @map(fn (%a, %b) { Cons(%a, %b) }, %x)

Code that runs functions then meets closures only. Names that are called stay names.
"""

from __future__ import annotations

from tilewright.relay.ir.adt import Constructor
from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import FuncType, Type
from tilewright.relay.ir.visitor import rewrite


def eta_expand(mod: IRModule, expand_constructor: bool = True, expand_global_var: bool = False) -> IRModule:
    """Expand constructors, and global functions if asked to; see the module's docstring."""
    mod = infer_type(mod)

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, Constructor) and expand_constructor:
            type_: Type = mod.type_data(node.belong_to).constructor_type(node)
        elif isinstance(node, GlobalVar) and expand_global_var:
            type_ = node.checked_type
        else:
            return None
        assert isinstance(type_, FuncType)
        params = [Var(f"a{index}", arg) for index, arg in enumerate(type_.arg_types)]
        return Function(params, node(*params), type_.ret_type, type_.type_params)

    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, rule))))
