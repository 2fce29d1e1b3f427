"""Repack the constant weights of recurrent layers into blocks of units, as the CPU kernel reads them.

Before: nn.lstm(%gates, %w, %h, %c)                                     %w: [D, 4 * H, H]
After:  nn.lstm(%gates, packed, %h, %c)                                 packed: [D, H / 16, H, 4, 16]

Zeros stand behind the last unit where the blocks do not divide the units.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.expr import Call, Constant, Expr
from tilewright.relay.module import IRModule
from tilewright.relay.op.registry import get
from tilewright.relay.transform.infer_type import infer_type
from tilewright.relay.visitor import rewrite
from tilewright.target import Target
from tilewright.topi.recurrent import GATES
from tilewright.topi.reference.recurrent import packed
from tilewright.topi.schedule.cpu.recurrent import unit_block


def pack_recurrent(mod: IRModule, target: Target) -> IRModule:
    """The module with every recurrent layer of constant weights reading packed ones."""
    kinds = {get(f"nn.{kind}"): count for kind, count in GATES.items()}
    done: dict[Constant, Constant] = {}

    def pack(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in kinds or not isinstance(node.args[1], Constant):
            return None
        weight, count = node.args[1], kinds[node.op]
        if weight.data.ndim != 3:
            return None
        if weight not in done:
            data = packed(weight.data, count, unit_block(weight.data.shape[2], count, target))
            done[weight] = Constant(np.ascontiguousarray(data))
        args = [node.args[0], done[weight], *node.args[2:]]
        return Call(node.op, args, node.attrs, node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, pack))))
