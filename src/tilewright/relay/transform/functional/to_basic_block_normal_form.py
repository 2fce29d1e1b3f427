"""Basic-block normal form: a value that several regions use is bound before the innermost region around them.

Before: if (%c) { add(%0, 1f) } else { multiply(%0, 2f) }               (%0 = exp(%x), one node in both branches)
After:  let %x0 = exp(%x); if (%c) { add(%x0, 1f) } else { multiply(%x0, 2f) }

Within a region the graph stays a graph. It is the form in which each region can be compiled by itself.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Expr, Let
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import children
from tilewright.relay.transform.functional.scopes import bind_in_scopes, find_scopes, is_atomic, opens_scope


def to_basic_block_normal_form(mod: IRModule) -> IRModule:
    """Bind what regions of every function share; see the module's docstring."""
    return infer_type(mod.map_functions(lambda func: func.with_body(basic_block_normal_form(func.body))))


def basic_block_normal_form(expr: Expr) -> Expr:
    """One expression in basic-block normal form; itself if it is in that form."""
    shared = crossing_values(expr)
    return bind_in_scopes(expr, lambda node, _: node in shared) if shared else expr


def crossing_values(expr: Expr) -> set[Expr]:
    """The values that are used in a region other than the one they are computed in and that no `Let` binds."""
    scopes = find_scopes(expr)
    crossing: set[Expr] = set()
    for node, own in scopes.of.items():
        for index, kid in enumerate(children(node)):
            used_in = scopes.opened[node, index] if opens_scope(node, index) else own
            if scopes.of[kid] is not used_in and not is_atomic(kid) and not isinstance(kid, Let):
                crossing.add(kid)
    return crossing
