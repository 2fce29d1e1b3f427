"""Dense layers of bytes with rows that start at whole copies, for devices that copy sixteen bytes at a time.

Before: nn.dense(%x, w)                    (w: [10000, 650], int8)
After:  nn.dense(nn.pad(%x), w')           (w': [10000, 656])

The zeros are stored by what computes the data. Results are the same, bit for bit.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.annotation import stop_fusion
from tilewright.relay.op.nn.activation import pad
from tilewright.relay.transform.simplify.make import is_call
from tilewright.tir.tensor_core import CHUNK


def whole_rows(mod: IRModule) -> IRModule:
    """Add zeros to the terms of dense layers of bytes; see the module's docstring."""
    mod = infer_type(mod)
    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, _rule))))


def _rule(node: Expr) -> Expr | None:
    if not is_call(node, "nn.dense") or not isinstance(node, Call) or not isinstance(node.args[1], Constant):
        return None
    data, weight = node.args[0], np.asarray(node.args[1].data)
    terms = weight.shape[-1]
    if weight.dtype != np.int8 or tensor_type_of(data).dtype != "int8" or terms < CHUNK or terms % CHUNK == 0:
        return None
    wider = (0, -terms % CHUNK)
    rows = pad(data, [(0, 0)] * (len(tensor_type_of(data).shape) - 1) + [wider])
    return Call(node.op, [stop_fusion(rows), Constant(np.pad(weight, [(0, 0), wider]))], node.attrs, node.span)
