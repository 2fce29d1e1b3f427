"""Loops of a foreign graph as functions of the module that call themselves.

@while_1(%i, %x, %w) { if (%i < 8) @while_1(%i + 1, dense(%x, %w), %w) else (%i, %x) }
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.frontend.idioms import reshape
from tilewright.relay.ir.expr import Call, Expr, Function, GlobalVar, If, Tuple, Var
from tilewright.relay.ir.type import FuncType, TupleType
from tilewright.relay.ir.type_of import type_of


def recursive_call(
    functions: dict[GlobalVar, Function], label: str, params: Sequence[Var], results: int, test: Expr,
    again: Sequence[Expr], start: Sequence[Expr], span: str,
) -> Call:  # fmt: skip
    """A call with `start` of a new function, entered in `functions`, that calls itself with `again` while `test`.

    Its result is the tuple of its first `results` parameters. `test` is a bool of one element.
    """
    types = [type_of(param) for param in params]
    name = GlobalVar(f"{label}_{len(functions) + 1}")
    name.set_inferred_type(FuncType(types, TupleType(types[:results])))
    root = If(reshape(test, ()), Call(name, again, span=span), Tuple(params[:results]))
    functions[name] = Function(params, root, TupleType(types[:results]))
    return Call(name, start, span=span)
