"""Products by weights with operands and short sums in float16, where the processor computes in it and gains by it.

Before: nn.dense(%x, w)                       in float32, in a function whose `PRECISION` is `FLOAT16`
After:  nn.contrib_dense_float16(cast(%x, "float16"), layout_transform(w', "NC", "NC32n2c"))          w': float16

Sums of 32 products are in float16 and are added up in float32 (`backend/cpu/schedule/half_intrin.py`). Weights beyond
the largest float16 keep their product in float32; activations beyond it become infinite. All other operators stay in
float32, and so do convolutions and products of two computed operands. Models in float16 are left as they are without
the attribute: `compute_in_float32` is more exact.
"""

from __future__ import annotations

import math

import numpy as np

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op import nn
from tilewright.relay.op.tensor import cast
from tilewright.relay.transform.quantize.bfloat16_products import PRECISION, packed_product
from tilewright.relay.transform.simplify.make import is_call

#: The value of the attribute `PRECISION`, and the type.
FLOAT16 = "float16"


def float16_products(mod: IRModule, backend: GraphBackend) -> IRModule:
    """Multiply float16 where functions ask for it and `backend` gains by it; see the module's docstring."""
    if not any(func.attrs.get(PRECISION) == FLOAT16 for func in mod.functions.values()):
        return mod
    return infer_type(
        infer_type(mod).map_functions(
            lambda func: (
                func.with_body(rewrite(func.body, lambda node: _dense(node, backend)))
                if func.attrs.get(PRECISION) == FLOAT16
                else func
            )
        )
    )


def _dense(node: Expr, backend: GraphBackend) -> Expr | None:
    if not is_call(node, "nn.dense") or str(tensor_type_of(node).dtype) != "float32":
        return None
    assert isinstance(node, Call)
    data, weight = node.args
    shape = tensor_type_of(data).shape
    static = all(isinstance(extent, int) for extent in shape)
    if not isinstance(weight, Constant) or node.attrs["weight_layout"] != "NC" or not static:
        return None
    if np.abs(weight.data).max(initial=0) > np.finfo(np.float16).max:
        return None
    units, depth = weight.data.shape
    found = backend.half_product(units, depth, math.prod(shape[:-1]))
    if found is None:
        return None
    narrow, values = cast(data, FLOAT16), weight.data.astype(np.float16)
    return packed_product(nn.contrib_dense_float16, narrow, values, shape, found)
