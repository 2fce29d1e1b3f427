"""Calls that no source model named are named after their position in the program's text.

Before: nn.relu(nn.dense(%x, %w))
After:  the same, the dense call with the span "GeneratedSource:2:8", the relu "GeneratedSource:3:3"

Line and column are those of `mod.astext()`. Names that the source model gave stay.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.parser import call_positions
from tilewright.relay.ir.printer import astext
from tilewright.relay.ir.visitor import children, post_order, rebuild

SOURCE = "GeneratedSource"


def annotate_spans(mod: IRModule) -> IRModule:
    """Set the span of each call without one to its position in the text of `mod`; see the module's docstring."""
    read, positions = call_positions(astext(mod))
    twins = {gvar.name: func for gvar, func in read.functions.items()}
    functions = {
        gvar: func.with_body(_named(func.body, twins[gvar.name].body, positions))
        for gvar, func in mod.functions.items()
    }
    return infer_type(mod.with_functions(functions))


def _named(root: Expr, twin: Expr, positions: dict[Expr, str]) -> Expr:
    """`root` with the positions of `twin`, the same graph read from its text."""
    fresh: dict[Expr, Expr] = {}
    for node, other in zip(post_order(root), post_order(twin), strict=True):
        made = rebuild(node, tuple([fresh[kid] for kid in children(node)]))
        if isinstance(made, Call) and not made.span and other in positions:
            made = Call(made.op, made.args, made.attrs, f"{SOURCE}:{positions[other]}")
        fresh[node] = made
    return fresh[root]
