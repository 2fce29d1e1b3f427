"""Weights of products stored as float16, in functions whose `PRECISION` is `FLOAT16`; products and sums are of float32.

Before: nn.conv2d(%x, w)                                    in float32
After:  nn.conv2d(%x, cast(w', "float32"))                  w': float16

For devices that load halves: weights take half the memory, and the cast is part of the kernel (`fuse_ops`). Whatever
has an attribute `out_dtype` and a constant second operand is such a product. Weights beyond the largest float16 stay.
Runs after constants were folded, which would undo it.
"""

from __future__ import annotations

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.tensor import cast
from tilewright.relay.transform.quantize.bfloat16_products import PRECISION
from tilewright.relay.transform.quantize.float16_products import FLOAT16


def half_weights(mod: IRModule) -> IRModule:
    """Round the weights of products to float16 where functions ask for it; see the module's docstring."""
    if not any(func.attrs.get(PRECISION) == FLOAT16 for func in mod.functions.values()):
        return mod
    return infer_type(
        mod.map_functions(
            lambda func: func.with_body(rewrite(func.body, _rounded)) if func.attrs.get(PRECISION) == FLOAT16 else func
        )
    )


def _rounded(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or "out_dtype" not in node.attrs or len(node.args) < 2:
        return None
    data, weight, *rest = node.args
    if not isinstance(weight, Constant) or str(weight.data.dtype) != "float32":
        return None
    if np.abs(weight.data).max(initial=0) > np.finfo(np.float16).max:
        return None
    stored = cast(Constant(weight.data.astype(np.float16)), "float32")
    return Call(node.op, [data, stored, *rest], node.attrs, node.span)
