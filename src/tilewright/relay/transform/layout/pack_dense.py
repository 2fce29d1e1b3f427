"""Repack the constant weights of matrix products into column panels, as the CPU kernels read them.

Before: nn.dense(%x, %w)                                       %w: [units, K]
After:  nn.dense(%x, layout_transform(%w, "NC", "NC32n"), weight_layout="NC32n")      [units / 32, K, 32]

Where the panels do not divide the units, rows of zeros are put behind the last one.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.tir.size_hint import size_hint


def pack_dense(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with every `nn.dense` of a constant weight reading packed panels; fold_constant then packs them."""
    dense, transform = get("nn.dense"), get("layout_transform")
    made: dict[tuple[Constant, int], Constant] = {}

    def pack(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not dense or node.attrs.get("weight_layout", "NC") != "NC":
            return None
        data, weight = node.args
        if not isinstance(weight, Constant):
            return None
        rows = math.prod(tensor_type_of(data).shape[:-1])
        units, depth = weight.data.shape
        block = backend.dense_block(units, depth, size_hint(rows))
        layout, zeros = f"NC{block}n", -units % block
        filled = _filled_up(weight, zeros, made)
        packed = Call(transform, [filled], {"src_layout": "NC", "dst_layout": layout}, node.span)
        return Call(dense, [data, packed], node.attrs.replace(weight_layout=layout, units=units), node.span)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, pack))))


def _filled_up(weight: Constant, zeros: int, made: dict[tuple[Constant, int], Constant]) -> Constant:
    """`weight` with rows of `zeros` behind its last; the same one for all products of that weight.

    A call would not be folded: its value is larger than the weight.
    """
    if not zeros:
        return weight
    if (weight, zeros) not in made:
        made[weight, zeros] = Constant(np.pad(weight.data, ((0, zeros), (0, 0))))
    return made[weight, zeros]
