"""Repack constant weights of a few bits into panels, in the order in which the CPU kernel reads them.

Before: nn.dense_blockwise(%x, %w, %s)                %w: [N, blocks, bytes], %s: [N, blocks]
After:  nn.dense_blockwise(%x, packed, scales, units=N)        packed: [N / 32, blocks, rows, 32, 4], scales: [N / 32,
            blocks, 32]

Their size stays: only rows of zeros are put behind the last one where the panels do not divide N. Where matrix
registers take the rows of the data, the product has columns for these too, and a slice leaves them out.
"""

from __future__ import annotations

import math

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import first_of
from tilewright.tir.dot_product import GROUP
from tilewright.topi.reference.blockwise import pack_rows, pack_weight, step_of

_BYTE_BITS = 8


def pack_blockwise(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with every `nn.dense_blockwise` of constant weights reading packed ones."""
    dense = get("nn.dense_blockwise")
    made: dict[tuple[Constant, int, int], Constant] = {}

    def constant(old: Constant, bits: int, panel: int) -> Constant:
        if (old, bits, panel) not in made:
            data = pack_weight(old.data, bits, panel) if bits else pack_rows(old.data, panel)
            made[old, bits, panel] = Constant(data)
        return made[old, bits, panel]

    def pack(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not dense:
            return None
        data, *operands = node.args
        constants = [x for x in operands if isinstance(x, Constant)]
        if len(constants) != len(operands):
            return None
        weight, bits = constants[0].data, node.attrs["bits"]
        if weight.ndim != 3 or weight.shape[2] * _BYTE_BITS // bits % (GROUP * step_of(bits)[1]):
            return None
        panel = backend.blockwise_panel(len(weight))
        if not panel:
            return None
        packed = [constant(x, 0 if position else bits, panel) for position, x in enumerate(constants)]
        units = len(weight)
        leading = tensor_type_of(data).shape[:-1]
        whole = node.attrs["table"] is None and all(isinstance(size, int) for size in leading)
        if whole and backend.fills_panels(math.prod(leading)):
            units += -units % panel
        return first_of(Call(dense, [data, *packed], node.attrs.replace(units=units), node.span), len(weight))

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, pack))))
