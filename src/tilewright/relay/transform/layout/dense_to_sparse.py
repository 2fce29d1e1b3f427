"""Products with weights that are mostly zeros take them in blocks: the blocks that are all zeros are not kept.

Before: nn.dense(%x, %w)                      %w: constant [64, 64], nine of ten blocks of (16, 1) zero
After:  nn.sparse_dense(%x, data, indices, indptr)             data: the other blocks, [nnz, 16, 1]

The weights of the model take less room so; the compiled kernel computes with the dense matrix that they stand for.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import InputError
from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.visitor import rewrite
from tilewright.relay.op.nn import sparse_dense
from tilewright.relay.transform.simplify.make import is_call

Sparse = tuple[np.ndarray, np.ndarray, np.ndarray]


def dense_to_sparse(mod: IRModule, blocksize: tuple[int, int] = (16, 1), sparsity_threshold: float = 0.8) -> IRModule:
    """Replace `nn.dense` by constant weights of which more than `sparsity_threshold` (0 … 1) of the blocks are zero.

    Weights that the block (rows, columns) does not divide stay. Raises InputError for a block without elements.
    """
    rows, columns = blocksize
    if rows < 1 or columns < 1:
        raise InputError(f"dense_to_sparse: a block of {rows}x{columns} holds nothing")

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or not is_call(node, "nn.dense"):
            return None
        weight = node.args[1]
        plain = node.attrs.weight_layout in ("NC", "NK", "")
        if not isinstance(weight, Constant) or weight.data.ndim != 2 or not plain:
            return None
        if node.attrs.out_dtype not in ("", str(weight.tensor_type.dtype)):
            return None
        found = sparse_blocks(weight.data, rows, columns, sparsity_threshold)
        if found is None:
            return None
        call = sparse_dense(node.args[0], [Constant(part) for part in found])
        return Call(call.op, call.args, call.attrs, node.span)

    mod = infer_type(mod)
    return infer_type(mod.map_functions(lambda func: func.with_body(rewrite(func.body, rule))))


def sparse_blocks(weight: np.ndarray, rows: int, columns: int, threshold: float) -> Sparse | None:
    """Data, column numbers and row starts of the blocks that are not zero; None if they are too many."""
    height, width = weight.shape
    if height % rows or width % columns:
        return None
    blocks = weight.reshape(height // rows, rows, width // columns, columns).transpose(0, 2, 1, 3)
    there = (blocks != 0).any((2, 3))
    if 1 - there.mean() <= threshold:
        return None
    starts = np.concatenate([[0], np.cumsum(there.sum(1))]).astype("int32")
    data = blocks[there]
    return (data.reshape(-1) if rows == columns == 1 else data), np.nonzero(there)[1].astype("int32"), starts
