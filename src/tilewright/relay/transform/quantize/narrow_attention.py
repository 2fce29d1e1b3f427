"""Attention with operands of 16 bits, where functions ask for it and the processor gains by it.

Before: nn.attention(%q, %k, %v, scale=0.125f)            in float32, in a function whose `PRECISION` is "bfloat16"
After:  nn.attention(%q, %k, %v, scale=0.125f, operands="bfloat16")

Queries, keys, values and the weights of rows are rounded in the kernel; sums and softmax stay in float32. So do sizes
that are symbolic or too small, and what is not expected to gain.
"""

from __future__ import annotations

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Expr, Function
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.quantize.bfloat16_products import BFLOAT16, PRECISION
from tilewright.relay.transform.quantize.float16_products import FLOAT16
from tilewright.relay.transform.simplify.make import is_call


def narrow_attention(mod: IRModule, backend: GraphBackend) -> IRModule:
    """Round what attention multiplies where functions ask for it; see the module's docstring."""
    if not any(func.attrs.get(PRECISION) in (BFLOAT16, FLOAT16) for func in mod.functions.values()):
        return mod

    def narrowed(func: Function) -> Function:
        operands = func.attrs.get(PRECISION)
        if operands not in (BFLOAT16, FLOAT16):
            return func
        return func.with_body(rewrite(func.body, lambda node: _rule(node, str(operands), backend)))

    return infer_type(infer_type(mod).map_functions(narrowed))


def _rule(node: Expr, operands: str, backend: GraphBackend) -> Expr | None:
    if not is_call(node, "nn.attention"):
        return None
    assert isinstance(node, Call)
    query, key, value = (tensor_type_of(arg) for arg in node.args[:3])
    if str(query.dtype) != "float32" or not all(one.is_static for one in (query, key, value)):
        return None
    (batch, heads, rows, depth), (columns, width) = query.shape, value.shape[2:]
    if not backend.narrows_attention(batch * heads, rows, columns, depth, width, operands):
        return None
    return Call(node.op, node.args, node.attrs.replace(operands=operands), node.span)
