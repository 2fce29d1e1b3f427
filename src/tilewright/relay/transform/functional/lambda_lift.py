"""Functions within functions become functions of the module, which take the variables around them as parameters.

Before: def @main(%x) { let %f = fn (%y) { add(%x, %y) }; %f(%f(%x)) }
After:  def @lifted_f(%x) { fn (%y) { add(%x, %y) } }                              (attribute Closure=1)
        def @main(%x) { let %f = @lifted_f(%x); %f(%f(%x)) }

A function that uses nothing from around it becomes the global function itself. One that calls itself by the name of
its binding calls its global function instead.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr, Function, GlobalVar, Let, Var
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import FuncType
from tilewright.relay.ir.visitor import free_vars, post_order, rewrite, substitute
from tilewright.relay.transform.functional.rename_bound import rename_bound


def lambda_lift(mod: IRModule) -> IRModule:
    """Lift every function inside the functions of `mod`; see the module's docstring."""
    lifter = _Lifter(infer_type(mod))
    functions = {gvar: func.with_body(lifter.lift(func.body)) for gvar, func in mod.functions.items()}
    if not lifter.lifted:
        return mod
    return infer_type(mod.with_functions({**functions, **lifter.lifted}))


class _Lifter:
    """The functions lifted so far; their names do not clash with those of the module."""

    def __init__(self, mod: IRModule) -> None:
        self.taken = {gvar.name for gvar in mod.functions}
        self.lifted: dict[GlobalVar, Function] = {}

    def lift(self, body: Expr) -> Expr:
        """`body` with calls of, or names of, global functions instead of its functions."""
        bindings = {node.value: node.var for node in post_order(body) if isinstance(node, Let)}
        names: dict[Expr, Var] = {node: var for node, var in bindings.items() if isinstance(node, Function)}
        replaced: dict[Expr, Expr] = {}
        for node in post_order(body):
            if isinstance(node, Function) and not node.is_primitive:
                replaced[node] = self._lift_one(node, names.get(node), replaced)
        return rewrite(body, lambda node: None, replaced) if replaced else body

    def _lift_one(self, func: Function, name: Var | None, replaced: dict[Expr, Expr]) -> Expr:
        """The replacement of `func`, whose inner functions are lifted already."""
        captured = [var for var in free_vars(func) if var is not name]
        gvar = self._fresh(name)
        use: Expr = gvar(*captured) if captured else gvar
        inside = dict(replaced)
        if name is not None:
            inside[name] = use
        body = rewrite(func.body, lambda node: None, inside)
        type_ = func.checked_type
        assert isinstance(type_, FuncType)
        params = [Var(p.name, t) for p, t in zip(func.params, type_.arg_types, strict=True)]
        body = substitute(body, dict(zip(func.params, params, strict=True)))
        lifted = Function(params, body, type_.ret_type, func.type_params, func.attrs)
        if captured:
            outer = [Var(var.name, var.checked_type) for var in captured]
            inner = substitute(lifted, dict(zip(captured, outer, strict=True)))
            lifted = Function(outer, inner, type_, attrs={"Closure": 1})
        renamed = rename_bound(lifted)
        assert isinstance(renamed, Function)
        self.lifted[gvar] = renamed
        return use

    def _fresh(self, name: Var | None) -> GlobalVar:
        stem = f"lifted_{name.name if name is not None else 'func'}"
        unique, number = stem, 0
        while unique in self.taken:
            number += 1
            unique = f"{stem}_{number}"
        self.taken.add(unique)
        return GlobalVar(unique)
