"""Operators that are short for others are written as those: `nn.bias_add` becomes an addition that broadcasts.

Before: nn.bias_add(%x, %b, axis=1)                        (%x: [1, 3, 8, 8], %b: [3])
After:  add(%x, expand_dims(%b, axis=1, num_newaxis=2))
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import along_channels, is_call, make


def canonicalize_ops(mod: IRModule) -> IRModule:
    """Spell out `nn.bias_add`; see the module's docstring."""
    return infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, _rule)))


def _rule(node: Expr) -> Expr | None:
    return bias_add_as_add(node) if isinstance(node, Call) and is_call(node, "nn.bias_add") else None


def bias_add_as_add(call: Call) -> Expr:
    """The call of `nn.bias_add` as a broadcasting `add`."""
    data, bias = call.args
    return make("add", data, along_channels(bias, call.attrs.axis, data, call.span), span=call.span)
