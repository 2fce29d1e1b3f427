"""Repack the constant weights of matrix products into column panels, as the CPU kernels read them.

Before: nn.dense(%x, %w)                                       %w: [units, K]
After:  nn.dense(%x, layout_transform(%w, "NC", "NC32n"), weight_layout="NC32n")      [units / 32, K, 32]
"""

from __future__ import annotations

import math

from tilewright.backend import backend_of
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.target import Target
from tilewright.tir.size_hint import size_hint


def pack_dense(mod: IRModule, target: Target) -> IRModule:
    """The module with every `nn.dense` of a constant weight reading packed panels; fold_constant then packs them."""
    dense, transform = get("nn.dense"), get("layout_transform")

    def pack(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not dense or node.attrs.get("weight_layout", "NC") != "NC":
            return None
        data, weight = node.args
        if not isinstance(weight, Constant):
            return None
        rows = math.prod(tensor_type_of(data).shape[:-1])
        units, depth = weight.data.shape
        layout = f"NC{backend_of(target).dense_block(units, depth, size_hint(rows))}n"
        packed = Call(transform, [weight], {"src_layout": "NC", "dst_layout": layout}, node.span)
        return Call(dense, [data, packed], node.attrs.replace(weight_layout=layout), node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, pack))))
