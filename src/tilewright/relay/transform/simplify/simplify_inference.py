"""Operators that matter in training only, or that are short for simpler ones, are spelled out.

Before: nn.batch_norm(%x, gamma, beta, mean, var).0;   nn.bias_add(%y, %b);   nn.dropout(%z)
After:  add(multiply(%x, scale), shift);               add(%y, reshape(%b));  %z

where scale = gamma / sqrt(var + epsilon) and shift = beta - mean * scale fold to constants. What is left is arithmetic
that fuses, folds into weights and runs in any layout.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.relay.ir.expr import Call, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type import TupleType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.canonicalize_ops import bias_add_as_add
from tilewright.relay.transform.simplify.make import along_channels, make, scalar_like
from tilewright.relay.transform.simplify.rule_index import RuleIndex

rule_of: RuleIndex[Callable[[Call], Expr]] = RuleIndex()


def simplify_inference(mod: IRModule) -> IRModule:
    """Spell out batch_norm, dropout, bias_add and prelu; see the module's docstring."""

    def rule(node: Expr) -> Expr | None:
        if isinstance(node, TupleGetItem) and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if isinstance(node, Call) and rule_of.rules(node.op):
            return rule_of.rules(node.op)[0](node)
        return None

    return mod.map_functions(lambda func: func.with_body(rewrite(func.body, rule)))


@rule_of("nn.batch_norm")
def _batch_norm(call: Call) -> Expr:
    data, gamma, beta, mean, var = call.args
    axis = call.attrs.get("axis", 1)
    deviation = make("sqrt", make("add", var, scalar_like(call.attrs.epsilon, var)))
    scale = make("divide", gamma, deviation) if call.attrs.get("scale", True) else _inverse(deviation)
    shift = make("negative", make("multiply", mean, scale))
    if call.attrs.get("center", True):
        shift = make("add", beta, shift)
    scaled = make("multiply", data, along_channels(scale, axis, data, call.span, one_serves=False), span=call.span)
    result = make("add", scaled, along_channels(shift, axis, data, call.span, one_serves=False), span=call.span)
    return Tuple([result, mean, var]) if isinstance(type_of(call), TupleType) else result


def _inverse(expr: Expr) -> Expr:
    return make("divide", scalar_like(1.0, expr), expr)


@rule_of("nn.dropout")
def _dropout(call: Call) -> Expr:
    data = call.args[0]
    if isinstance(type_of(call), TupleType):
        return Tuple([data, make("ones_like", data)])
    return data


@rule_of("nn.prelu")
def _prelu(call: Call) -> Expr:
    """max(x, 0) + alpha * min(x, 0): arithmetic only, so it follows any layout."""
    data, alpha = call.args
    zero = scalar_like(0.0, data)
    slope = along_channels(alpha, call.attrs.get("axis", 1), data, call.span)
    below = make("multiply", make("minimum", data, zero, span=call.span), slope, span=call.span)
    return make("add", make("maximum", data, zero, span=call.span), below, span=call.span)


rule_of("nn.bias_add")(bias_add_as_add)
