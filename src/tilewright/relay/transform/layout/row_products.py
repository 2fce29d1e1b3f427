"""Products of one row by stacks of matrices whose rows lie in order, as sums: their kernel would turn them first.

Before: nn.batch_matmul(%q, transpose(%k, axes=[0, 2, 1]), transpose_b=False)      %q: [B, 1, K], %k: [B, N, K]
After:  expand_dims(sum(multiply(%q, %k), axis=[2]), axis=1)

So a decoder that reads one token meets its keys: each is read once, where it lies, and no copy is written.
"""

from __future__ import annotations

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op import expand_dims, multiply, reshape, sum
from tilewright.relay.op.views import is_reshape

#: Element types in which the sum is what the product is, and has vectors.
_TYPES = ("float32", "float64")


def row_products(mod: IRModule) -> IRModule:
    """The module with every `nn.batch_matmul` of one row by computed, transposed matrices as a sum of products."""
    product = get("nn.batch_matmul")

    def replace(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not product or node.attrs["transpose_a"]:
            return None
        left, right = node.args
        shape, kind = tensor_type_of(left).shape, str(tensor_type_of(node).dtype)
        if shape[1] != 1 or kind not in _TYPES or any(str(tensor_type_of(arg).dtype) != kind for arg in node.args):
            return None
        rows = right if node.attrs["transpose_b"] else _turned(right)
        if rows is None or isinstance(rows, Constant):
            return None
        return expand_dims(sum(multiply(left, rows), axis=(2,)), axis=1)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, replace))))


def _turned(value: Expr) -> Expr | None:
    """The stack of matrices whose transposes `value` is, at most regrouped; None where it is none."""
    shape = tensor_type_of(value).shape
    inner = value.args[0] if isinstance(value, Call) and is_reshape(value) else value
    if not isinstance(inner, Call) or inner.op is not get("transpose"):
        return None
    axes = [int(axis) for axis in inner.attrs["axes"] or ()]
    last = len(axes) - 1
    if axes != [*range(last - 1), last, last - 1] or tensor_type_of(inner).shape[-2:] != shape[-2:]:
        return None
    return reshape(inner.args[0], newshape=(shape[0], shape[2], shape[1]))
