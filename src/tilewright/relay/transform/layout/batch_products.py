"""Products of two matrices that are both known at run time only, as a stack of one: that kernel packs its operands.

Before: nn.dense(%x, transpose(%w, axes=[1, 0]))                    %x: [M, K], %w: [K, N]
After:  reshape(nn.batch_matmul(reshape(%x), reshape(%w), transpose_b=False))     [1, M, K], [1, K, N]
"""

from __future__ import annotations

import math

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import get
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import tensor_type_of
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.nn.dense import PLAIN
from tilewright.relay.op.transform import reshape

#: Element types of which the kernel has vectors.
_TYPES = ("float32", "float64")


def batch_products(mod: IRModule) -> IRModule:
    """The module with every `nn.dense` and `nn.matmul` of two computed operands of known sizes as `nn.batch_matmul`.

    Constant weights stay for `pack_dense`; one row by a transposed matrix stays too, for there is nothing to pack.
    """
    dense, matmul, stacked, transposed = get("nn.dense"), get("nn.matmul"), get("nn.batch_matmul"), get("transpose")

    def replace(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op not in (dense, matmul):
            return None
        left, right = node.args
        flip_left, flip_right = bool(node.attrs.get("transpose_a")), bool(node.attrs.get("transpose_b"))
        if node.op is dense:
            flip_right = True
            if node.attrs.get("weight_layout", "NC") not in PLAIN:
                return None
        if isinstance(right, Call) and right.op is transposed:
            right, flip_right = right.args[0], not flip_right
        types = tensor_type_of(left), tensor_type_of(right)
        made = tensor_type_of(node)
        if isinstance(right, Constant) or not _fits(made, *types) or (math.prod(made.shape[:-1]) == 1 and flip_right):
            return None
        depth = types[0].shape[-1]
        rows = types[0].shape if flip_left else (math.prod(types[0].shape[:-1]), depth)
        flags = {"out_dtype": node.attrs["out_dtype"], "transpose_a": flip_left, "transpose_b": flip_right}
        operands = [reshape(left, (1, *rows)), reshape(right, (1, *types[1].shape))]
        return reshape(Call(stacked, operands, flags, node.span), made.shape)

    return infer_type(infer_type(mod).map_functions(lambda func: func.with_body(rewrite(func.body, replace))))


def _fits(made: TensorType, *operands: TensorType) -> bool:
    """True for matrices of sizes and types that the kernel takes."""
    return str(made.dtype) in _TYPES and all(
        str(operand.dtype) == str(made.dtype) and all(isinstance(extent, int) and extent for extent in operand.shape)
        for operand in operands
    )
