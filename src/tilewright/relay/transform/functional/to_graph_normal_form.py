"""Graph normal form: the values that `Let`s bind stand where they are used, each still computed once.

Before: let %x0 = add(%a, %b); let %x1 = multiply(%x0, %x0); %x1
After:  %0 = add(%a, %b); multiply(%0, %0)

A binding stays where its order matters, because references are read or written, and where a function calls itself by
the name of the binding, or is polymorphic.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr, Function, Let
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children, free_vars, rebuild
from tilewright.relay.op.effects import has_references, may_have_effects
from tilewright.relay.transform.functional.scopes import evaluation_order


def to_graph_normal_form(mod: IRModule) -> IRModule:
    """Put bound values in place in every function; see the module's docstring."""
    effects = has_references(*[func.body for func in mod.functions.values()])
    return infer_type(mod.map_functions(lambda func: func.with_body(graph_normal_form(func.body, effects))))


def graph_normal_form(expr: Expr, effects: bool = True) -> Expr:
    """One expression in graph normal form. `effects` False says that the program has no references."""
    done: dict[Expr, Expr] = {}
    kept: set[Expr] = set()
    for node, binds in evaluation_order(expr):
        if binds:
            assert isinstance(node, Let)
            if _must_stay(node, effects):
                kept.add(node)
            else:
                done[node.var] = done[node.value]
        elif isinstance(node, Let) and node not in kept:
            done[node] = done[node.body]
        elif node not in done:
            done[node] = rebuild(node, tuple([done[kid] for kid in children(node)]))
    return done[expr]


def _must_stay(let: Let, effects: bool) -> bool:
    if effects and may_have_effects(let.value):
        return True
    if not isinstance(let.value, Function):
        return False
    return bool(let.value.type_params) or let.var in free_vars(let.value)
