"""Calls put into other layouts, or replaced, by rules of a program's own; what reads them follows.

Before: nn.relu(nn.conv2d(%x, %w))                                       (a rule requests data_layout="NCHW16c")
After:  %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW16c");
        %1 = nn.relu(nn.conv2d(%0, %w, data_layout="NCHW16c")); layout_transform(%1, "NCHW16c", "NCHW")

A rule says no more than the new call: transformations between layouts stand where values need them
(`layout_rewriter.py`). Without rules of its own a program gets its layouts from `alter_layout`, which plans them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.transform import expand_dims, layout_transform
from tilewright.relay.transform.layout.layout_rewriter import LayoutRewriter
from tilewright.relay.transform.manager.scoped_rules import CallRule, ScopedRules

_RULES = ScopedRules("tilewright_layout_rules")


def altered_layout(op_name: str, rule: CallRule) -> AbstractContextManager[None]:
    """Within the block `alter_op_layout` uses `rule` for the operator. Raises `UnsupportedError` for an unknown one."""
    return _RULES.using(op_name, rule)


def rules_in_force() -> Mapping[str, CallRule]:
    """The rules of the enclosing `altered_layout` blocks, by operator."""
    return _RULES.in_force()


def alter_op_layout(mod: IRModule, rules: Mapping[str, CallRule] | None = None) -> IRModule:
    """Apply `rules` by operator (default: those in force) to each call once; see the module's docstring."""
    chosen = rules_in_force() if rules is None else rules
    if not chosen:
        return mod

    def rule(call: Call, args: Sequence[Expr]) -> Expr | None:
        assert isinstance(call.op, Op)
        given = chosen.get(call.op.name)
        return given(call.attrs, args, [*map(type_of, call.args), type_of(call)]) if given is not None else None

    mod = infer_type(mod)
    altered = mod.map_functions(lambda func: func.with_body(LayoutRewriter(rule, transformed_to).run(func.body)))
    return infer_type(altered)


def transformed_to(value: Expr, missing: int, now: str, wanted: str) -> Expr:
    """`value` with `missing` axes of extent 1 in front, from one layout to another, as operators that show it."""
    if missing:
        value = expand_dims(value, axis=0, num_newaxis=missing)
    return value if now == wanted else layout_transform(value, now, wanted)
