"""A concatenation of more tensors than one kernel may take becomes a concatenation of concatenations.

Before: concatenate((%a, %b, %c, %d, %e), axis=0)                                                  (at most 3 at once)
After:  %0 = concatenate((%a, %b, %c), axis=0); %1 = concatenate((%d, %e), axis=0); concatenate((%0, %1), axis=0)

GPU and accelerator kernels take a limited number of arguments. The outer concatenation stays within the limit too,
in as many levels as it takes.
"""

from __future__ import annotations

from tilewright.errors import InputError
from tilewright.relay.ir.expr import Call, Expr, Tuple
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import is_call

#: Tensors that one kernel joins at most: its code, and the time to compile it, grow faster than their number.
MOST_JOINED = 64


def split_args(mod: IRModule, max_function_args: int = MOST_JOINED) -> IRModule:
    """Concatenate at most `max_function_args` tensors at once (below 0: no limit); see the module's docstring."""
    if 0 <= max_function_args < 2:
        raise InputError(f"split_args: a concatenation takes at least 2 tensors, not {max_function_args}")

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not is_call(node, "concatenate") or max_function_args < 0:
            return None
        (fields,) = node.args
        if not isinstance(fields, Tuple) or len(fields.fields) <= max_function_args:
            return None
        return _split(node, fields.fields, max_function_args)

    return mod.map_functions(lambda func: func.with_body(rewrite(func.body, rule)))


def _split(call: Call, parts: tuple[Expr, ...], limit: int) -> Expr:
    while len(parts) > limit:
        groups = [parts[i : i + limit] for i in range(0, len(parts), limit)]
        parts = tuple([g[0] if len(g) == 1 else Call(call.op, [Tuple(g)], call.attrs, call.span) for g in groups])
    return Call(call.op, [Tuple(parts)], call.attrs, call.span)
