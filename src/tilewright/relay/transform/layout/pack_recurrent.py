"""Make recurrent layers ready for their CPU kernel: constant weights in blocks of units, first states of zeros known.

Before: nn.lstm(%gates, %w, zeros, zeros)                               %w: [D, 4 * H, H]
After:  nn.lstm(%gates, packed, zeros, zeros, zero_state=True)          packed: [D, H / 16, H, 4, 16]

Zeros stand behind the last unit where the blocks do not divide the units. Weights of bytes have four inputs side by
side, [D, H / 16, H / 4, 4, 16, 4], and the state takes the type of bytes that the target's dot product wants. A layer
whose first states are zeros needs no recurrent product in its first step.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.visitor import rewrite
from tilewright.runtime.host_ops.recurrent import GATES
from tilewright.tir.dot_product import GROUP
from tilewright.topi.reference.recurrent import packed


def pack_recurrent(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with every recurrent layer of constant weights reading packed ones; see the module's docstring."""
    kinds = {get(f"nn.{kind}"): (count, 4 if kind == "lstm" else 3) for kind, count in GATES.items()}
    done: dict[Constant, Constant] = {}
    data_type = (backend.dot_operands() or ("uint8", "int8"))[0]
    data_type = data_type if data_type != "int16" else "uint8"  # states are bytes everywhere

    def pack(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in kinds:
            return None
        count, states_end = kinds[node.op]
        weight, attrs = node.args[1], node.attrs
        if isinstance(weight, Constant) and weight.data.ndim == 3:
            if weight not in done:
                bytes_ = weight.data.dtype == np.int8
                block = backend.unit_block(weight.data.shape[2], count, bytes_)
                data = packed(weight.data, count, block, GROUP if bytes_ else 1)
                done[weight] = Constant(np.ascontiguousarray(data))
            weight = done[weight]
        if "scale" in attrs["optional"]:
            attrs = attrs.replace(codes=data_type)
        if all(isinstance(state, Constant) and not state.data.any() for state in node.args[2:states_end]):
            attrs = attrs.replace(zero_state=True)
        if weight is node.args[1] and attrs == node.attrs:
            return None
        return Call(node.op, [node.args[0], weight, *node.args[2:]], attrs, node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, pack))))
