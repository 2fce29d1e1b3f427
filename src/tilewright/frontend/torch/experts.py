"""Products of groups of rows with a matrix each: the layers of networks whose experts share the tokens among them."""

from __future__ import annotations

from itertools import pairwise

from tilewright.frontend.idioms import concatenate, full, index_axis, rank_of, reshape, shape_of
from tilewright.frontend.torch.nn import matmul
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.selection import slice_of_run
from tilewright.relay.ir.expr import Expr


@converts("transformers.grouped_mm_fallback", "aten._grouped_mm")
def convert_grouped_mm(node: TorchNode) -> Expr:
    """Rows [S, K] up to each of the offsets [E] times the matrix [E, K, N] of the group; zeros behind the last."""
    rows, matrices = node.get("input", node.get("self")), node.get("weight", node.get("mat2"))
    ends = node["offs"]
    if node.get("bias") is not None:
        node.unsupported("a bias")
    if ends is None:
        return matmul(rows, matrices)
    if (rank_of(rows), rank_of(matrices)) != (2, 3) or not isinstance(shape_of(matrices)[0], int):
        node.unsupported("groups of columns or of what is summed over")
    cuts = [None, *(index_axis(ends, 0, group) for group in range(shape_of(matrices)[0]))]
    parts = [
        matmul(slice_of_run(node, rows, 0, *cut, 1), index_axis(matrices, 0, group))
        for group, cut in enumerate(pairwise(cuts))
    ]
    zeros = full(0, node.shape, node.dtype)
    parts.append(slice_of_run(node, zeros, 0, cuts[-1], None, 1))
    return reshape(concatenate(parts, 0), node.shape)
