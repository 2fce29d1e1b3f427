"""Attention as GluonNLP writes it: heads of queries, keys and values that lie beside each other in one product."""

from __future__ import annotations

from tilewright.frontend.idioms import index_axis, reshape, transpose
from tilewright.frontend.mxnet.node import MxnetNode, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def _part(node: MxnetNode, index: int, position: int, parts: int) -> Expr:
    """[batch * heads, length, width]: one of the `parts` of each head of input `index` [length, batch, all]."""
    heads = int(node.needed("heads"))
    length, batch, width = node.shape(index)
    if heads < 1 or width % (heads * parts):
        node.bad(f"{width} numbers are no {parts} parts of {heads} heads")
    split = reshape(node[index], (length, batch, heads, parts, width // (heads * parts)))
    turned = transpose(index_axis(split, 3, position), (1, 2, 0, 3))
    return reshape(turned, (batch * heads, length, width // (heads * parts)))


def _mixed(node: MxnetNode, values: Expr) -> Expr:
    """[length, batch, heads * width] of scores [batch * heads, length, other length] and values."""
    heads, batch = int(node.needed("heads")), node.shape(0)[1]
    made = op.nn.batch_matmul(node[1], values, transpose_b=False)
    length, width = node.shape(made)[1:]
    split = reshape(made, (batch, heads, length, width))
    return reshape(transpose(split, (2, 0, 1, 3)), (length, batch, heads * width))


@converts("_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_encdec_qk")
def convert_scores(node: MxnetNode) -> Expr:
    """Queries times keys, of one input or of two."""
    both = node.operator == "_contrib_interleaved_matmul_selfatt_qk"
    queries, keys = _part(node, 0, 0, 3 if both else 1), _part(node, 0, 1, 3) if both else _part(node, 1, 0, 2)
    return op.nn.batch_matmul(queries * node.shape(queries)[2] ** -0.5, keys, transpose_b=True)


converts.functions(
    {
        # scores times values, of one input or of another
        "_contrib_interleaved_matmul_selfatt_valatt": lambda node: _mixed(node, _part(node, 0, 2, 3)),
        "_contrib_interleaved_matmul_encdec_valatt": lambda node: _mixed(node, _part(node, 0, 1, 2)),
    }
)
