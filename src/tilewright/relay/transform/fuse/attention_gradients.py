"""Gradients of attention as one kernel, which computes the scores again, a head at a time.

Before: nn.attention_backward(%q, %k, %v, %g, scale=0.125f)                          each [B, H, N, D]
After:  nn.contrib_attention_backward(%q, %k, %v, %g, scale=0.125f)

Of fewer rows than attention itself is fused for, and on other devices, it is written in products.
"""

from __future__ import annotations

from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.transform.simplify.make import is_call


def attention_gradients(mod: IRModule, backend: GraphBackend) -> IRModule:
    """The module with its gradients of attention by their own template; see the module's docstring."""
    if not backend.has_target:
        return mod
    own = get("nn.contrib_attention_backward")

    def replaced(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not is_call(node, "nn.attention_backward"):
            return None
        query = tensor_type_of(node.args[0])
        rows, depth = query.shape[2:]
        fuses = backend.fuses_attention(rows, depth, depth, str(query.dtype))
        return Call(own, node.args, node.attrs, node.span) if fuses else None

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, replaced))))
