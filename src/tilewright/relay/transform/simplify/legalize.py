"""Calls that a target cannot run well as they are become others of the same value, by rules for their operators.

Before: nn.conv2d(%x, %w)                                       (%x has 3 channels, the rule wants a multiple of 4)
After:  nn.conv2d(nn.pad(%x, pad_width=[[0, 0], [0, 1], …]), nn.pad(%w, …))

There are no rules by default: the layout rules and schedules of this package take every operator as it is. Programs
bring their own, as arguments or within `legalization`:

    with legalization("nn.conv2d", pad_channels):
        mod = legalize(mod)
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.manager.scoped_rules import CallRule, ScopedRules

_RULES = ScopedRules("tilewright_legalizations")


def legalization(op_name: str, rule: CallRule) -> AbstractContextManager[None]:
    """Within the block, `legalize` uses `rule` for the operator. Raises `UnsupportedError` for an unknown operator."""
    return _RULES.using(op_name, rule)


def legalize(mod: IRModule, rules: Mapping[str, CallRule] | None = None) -> IRModule:
    """Apply `rules` by operator name (default: those of the enclosing `legalization` blocks) to each call once."""
    chosen = _RULES.in_force() if rules is None else rules
    if not chosen:
        return mod

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.name not in chosen:
            return None
        types = [*map(type_of, node.args), type_of(node)]
        return chosen[node.op.name](node.attrs, node.args, types)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, rule))))
