"""Type inference: every node gets its `checked_type`, or one error shows the call that does not fit.

Before: def @main(%x: Tensor[(1, 3), float32]) { nn.relu(%x) }
After:  def @main(%x: Tensor[(1, 3), float32]) -> Tensor[(1, 3), float32] { nn.relu(%x) /* ty=… */ }

A type is a function of the node, which is immutable, so it is kept with the node and never computed twice: after a
rewrite only new nodes cost anything.

Functions of a module are typed callees first; those that call each other are typed together. How the types within
one function follow from each other: `relay/ir/typing_rules.py`. The type of one expression: `relay/ir/type_of.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.excerpt import excerpt
from tilewright.relay.ir.expr import GlobalVar
from tilewright.relay.ir.match_coverage import check_matches
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import FuncType
from tilewright.relay.ir.typing_rules import Inference, TypeErrorAt, declared_type
from tilewright.relay.ir.visitor import global_vars


def infer_type(mod: IRModule) -> IRModule:
    """Derive the type of every node of every function of `mod`, and return `mod`.

    Raises `TypeMismatchError` naming operator, source node, attributes and argument types of the first call that does
    not fit, or the variable without a type, with the lines of the program around it.
    """
    fresh = [g for g in mod.functions if g.inferred_type is None or mod[g].inferred_type is None]
    callees = {gvar: [g for g in global_vars(mod[gvar]) if g in mod.functions] for gvar in fresh}
    for group in _groups(callees):
        _infer_group(mod, group, recursive=len(group) > 1 or group[0] in callees[group[0]])
    if mod.type_definitions:
        for gvar in fresh:
            _located(mod, gvar, lambda gvar=gvar: check_matches(mod[gvar], mod))  # type: ignore[misc]
    return mod


def _infer_group(mod: IRModule, group: list[GlobalVar], recursive: bool) -> None:
    """Type functions that call each other. One that declares all its types may be polymorphic for the others."""
    inference = Inference()
    assumed: dict[GlobalVar, FuncType] = {}
    for gvar in group if recursive else ():
        assumed[gvar] = declared_type(mod[gvar])
        inference.assume(gvar, assumed[gvar])
    for gvar in group:

        def visit(gvar: GlobalVar = gvar) -> None:
            inference.visit(mod[gvar])
            if gvar in assumed:
                inference.agree(assumed[gvar], mod[gvar])

        _located(mod, gvar, visit)
    _located(mod, group[0], inference.finish)
    for gvar in group:
        gvar.set_inferred_type(mod[gvar].checked_type)


def _located(mod: IRModule, gvar: GlobalVar, action: Callable[[], None]) -> None:
    """Run `action`; an error in it gets the lines of the program that it is about."""
    try:
        action()
    except TypeErrorAt as error:
        where = excerpt(mod, error.node, hint=gvar)
        raise TypeMismatchError(f"{error}\n{where}" if where else str(error)) from None


def _groups(callees: dict[GlobalVar, list[GlobalVar]]) -> list[list[GlobalVar]]:
    """Strongly connected components of the call graph, callees first (Tarjan's algorithm, iterative)."""
    index: dict[GlobalVar, int] = {}
    low: dict[GlobalVar, int] = {}
    open_: dict[GlobalVar, None] = {}
    groups: list[list[GlobalVar]] = []
    for root in callees:
        if root in index:
            continue
        work = [(root, iter(callees[root]))]
        index[root] = low[root] = len(index)
        open_[root] = None
        while work:
            node, rest = work[-1]
            following = next((g for g in rest if g in callees and (g not in index or g in open_)), None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    position = list(open_).index(node)
                    groups.append(list(open_)[position:])
                    for member in groups[-1]:
                        del open_[member]
            elif following in index:
                low[node] = min(low[node], index[following])
            else:
                index[following] = low[following] = len(index)
                open_[following] = None
                work.append((following, iter(callees[following])))
    return groups
