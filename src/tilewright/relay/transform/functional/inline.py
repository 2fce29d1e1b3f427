"""Calls of global functions marked `Inline` become the bodies of those functions.

Before: def @twice(%x, Inline=1) { add(%x, %x) }    def @main(%y) { @twice(exp(%y)) }
After:  def @main(%y) { let %x = exp(%y); add(%x, %x) }

Arguments that are no variables or constants are bound first, so nothing is computed twice. A function for an external
code generator (`Compiler`) stays one, at the position of its name, and so does one that is passed on as a value.
Functions that call themselves, directly or through others, stay; marked functions that were named and are no longer go.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, Let
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import global_vars, rewrite, substitute
from tilewright.relay.transform.functional.rename_bound import rename_bound
from tilewright.relay.transform.functional.scopes import is_atomic
from tilewright.support.recursion import nested


def inline(mod: IRModule) -> IRModule:
    """Inline every function with the attribute `Inline`; see the module's docstring."""
    marked = [gvar for gvar, func in mod.functions.items() if func.attrs.get("Inline") and not _recursive(mod, gvar)]
    functions = dict(mod.functions)
    for gvar in _callees_first(mod, marked):
        functions = {g: f.with_body(_inlined(f.body, gvar, functions[gvar])) for g, f in functions.items()}
    named, still_named = _named(mod.functions.values()), _named(functions.values())
    kept = {g: f for g, f in functions.items() if g not in marked or g not in named or g in still_named}
    return infer_type(mod.with_functions(kept)) if marked else mod


def _named(functions: Iterable[Function]) -> set[GlobalVar]:
    return {gvar for func in functions for gvar in global_vars(func)}


def _inlined(body: Expr, gvar: GlobalVar, func: Function) -> Expr:
    return rewrite(body, lambda node: _rule(node, gvar, func))


def _rule(node: Expr, gvar: GlobalVar, func: Function) -> Expr | None:
    if node is gvar:
        return rename_bound(func)
    if not isinstance(node, Call) or node.op is not gvar:
        return None
    copy = rename_bound(func)
    assert isinstance(copy, Function)
    return Call(copy, node.args, span=node.span) if func.attrs.get("Compiler") else apply(copy, node.args)


def apply(func: Function, args: tuple[Expr, ...]) -> Expr:
    """The body of `func`, whose variables nothing else uses, with its parameters bound to `args`."""
    direct = {p: a for p, a in zip(func.params, args, strict=True) if is_atomic(a)}
    body = substitute(func.body, direct)  # type: ignore[arg-type]
    for param, arg in reversed(list(zip(func.params, args, strict=True))):
        if param not in direct:
            body = Let(param, arg, body)
    return body


def _recursive(mod: IRModule, gvar: GlobalVar) -> bool:
    """True if the function reaches itself through the functions it names."""
    seen: set[GlobalVar] = set()
    stack = [gvar]
    while stack:
        for callee in global_vars(mod[stack.pop()].body):
            if callee is gvar:
                return True
            if callee not in seen and callee in mod.functions:
                seen.add(callee)
                stack.append(callee)
    return False


def _callees_first(mod: IRModule, marked: list[GlobalVar]) -> list[GlobalVar]:
    """`marked` such that a function comes after those of them that it calls."""
    order: list[GlobalVar] = []

    @nested
    def visit(gvar: GlobalVar) -> None:
        if gvar not in order:
            for callee in global_vars(mod[gvar].body):
                if callee in marked:
                    visit(callee)
            order.append(gvar)

    for gvar in marked:
        visit(gvar)
    return order
