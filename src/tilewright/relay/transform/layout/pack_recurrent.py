"""Make recurrent layers ready for their CPU kernel: constant weights in blocks of units, first states of zeros known.

Before: nn.lstm(%gates, %w, zeros, zeros)                               %w: [D, 4 * H, H]
After:  nn.lstm(%gates, packed, zeros, zeros, zero_state=True)          packed: [D, H / 16, H, 4, 16]

Zeros stand behind the last unit where the blocks do not divide the units. A layer whose first states are zeros needs no
recurrent product in its first step.
"""

from __future__ import annotations

import numpy as np

from tilewright.backend import backend_of
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.visitor import rewrite
from tilewright.target import Target
from tilewright.topi.recurrent import GATES
from tilewright.topi.reference.recurrent import packed


def pack_recurrent(mod: IRModule, target: Target) -> IRModule:
    """The module with every recurrent layer of constant weights reading packed ones; see the module's docstring."""
    kinds = {get(f"nn.{kind}"): (count, 4 if kind == "lstm" else 3) for kind, count in GATES.items()}
    done: dict[Constant, Constant] = {}

    def pack(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in kinds:
            return None
        count, states_end = kinds[node.op]
        weight, attrs = node.args[1], node.attrs
        if isinstance(weight, Constant) and weight.data.ndim == 3:
            if weight not in done:
                data = packed(weight.data, count, backend_of(target).unit_block(weight.data.shape[2], count))
                done[weight] = Constant(np.ascontiguousarray(data))
            weight = done[weight]
        if all(isinstance(state, Constant) and not state.data.any() for state in node.args[2:states_end]):
            attrs = attrs.replace(zero_state=True)
        if weight is node.args[1] and attrs == node.attrs:
            return None
        return Call(node.op, [node.args[0], weight, *node.args[2:]], attrs, node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, pack))))
