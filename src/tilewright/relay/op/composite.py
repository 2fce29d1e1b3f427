"""Operators that are written in other operators: `register_composite` needs an expansion and a reference, no more.

    register_composite(
        "nn.upsampling", num_inputs=1, reference=…,
        expansion=lambda args, attrs: image.resize2d(args[0], …),
    )

The type of a call is that of its expansion. `transform.expand_operators` puts the expansion in place of the call before
any other pass, so that every template, fusion and layout rule of the operators within applies; the gradient is that of
the expansion. The reference is written apart, and checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.ir.expr import Attrs, Call, Expr, GlobalVar, Var
from tilewright.relay.ir.registry import Expansion, Op, OpPattern, Reference, TypeRule, register
from tilewright.relay.ir.type import FuncType, Type
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.op.common import Types


def register_composite(
    name: str,
    *,
    num_inputs: int,
    expansion: Expansion,
    reference: Reference,
    type_rule: TypeRule | None = None,
    pattern: OpPattern = OpPattern.OPAQUE,
    **fields: Any,
) -> Op:
    """Enter an operator that `expansion(args, attrs)` writes in others; `type_rule` only where it checks more.

    `fields` are further ones of `Op`.
    """
    return register(
        name,
        num_inputs=num_inputs,
        type_rule=type_rule or (lambda types, attrs: type_of_expansion(expansion, types, attrs)),
        pattern=pattern,
        reference=reference,
        expansion=expansion,
        **fields,
    )


def type_of_expansion(expansion: Expansion, types: Types, attrs: Attrs) -> Type:
    """The type of what `expansion` makes of arguments of `types`. Raises TypeMismatchError."""
    return type_of(expansion(_stand_ins(types), attrs))


def _stand_ins(types: Types) -> Sequence[Expr]:
    stand_ins = [GlobalVar(f"f{i}") if isinstance(t, FuncType) else Var(f"x{i}", t) for i, t in enumerate(types)]
    for var, type_ in zip(stand_ins, types, strict=True):
        var.set_inferred_type(type_)
    return stand_ins


def expand_call(call: Call) -> Expr:
    """The expansion of a call of a composite operator, on the call's own arguments, whose types must be known."""
    assert isinstance(call.op, Op) and call.op.expansion is not None
    return call.op.expansion(call.args, call.attrs)
