"""Gathering, scattering, sorting and searching."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.builders.elements import batched_take, gather_nd, scatter_nd
from tilewright.frontend.idioms import along, broadcast_to, cast, constant, index_axis, reshape, shape_of
from tilewright.frontend.tflite.node import Node, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("GATHER")
def convert_gather(node: Node) -> Expr:
    axis, batch = node.axis(int(node.option("axis", 0))), int(node.option("batch_dims", 0))
    batch += node.rank(1) if batch < 0 else 0
    indices = node[1]
    if not batch:
        return op.take(node[0], indices, axis=axis, mode="clip")
    shape, positions = node.shape(), node.shape(1)
    if shape[:batch] != positions[:batch] or axis < batch:
        node.bad(f"batches {list(positions[:batch])} of data {list(shape)}")
    return batched_take(node[0], indices, axis, batch)


converts.functions({
    "GATHER_ND": lambda node: gather_nd(node[0], node[1]),
    "WHERE": lambda node: cast(op.argwhere(node[0]), node.output().dtype),
    # indices, updates, shape; updates of one position add up
    "SCATTER_ND": lambda node: scatter_nd(
        constant(np.zeros(node.ints(2, "shape")), node.dtype(1)), node[0], node[1], "add"
    ),
})  # fmt: skip


@converts("EMBEDDING_LOOKUP")
def convert_embedding_lookup(node: Node) -> Expr:
    """Inputs: row numbers, table; a quantized table returns real numbers where the output is float."""
    rows = op.take(node[1], node[0], axis=0, mode="clip")
    if node.output().dtype == "float32" and node.is_quantized(1):
        scale = node.input_quantization(1).scale
        scales: Expr = constant(scale.reshape(()), "float32")
        if scale.size > 1:
            picked = op.take(constant(scale, "float32"), node[0], axis=0, mode="clip")
            scales = reshape(picked, (*shape_of(picked), *(1,) * (node.rank(1) - 1)))
        return cast(rows, "float32") * scales
    return rows


@converts("ONE_HOT")
def convert_one_hot(node: Node) -> Expr:
    depth = node.ints(1, "depth")[0]
    axis = node.axis(int(node.option("axis", -1)), node.rank() + 1)
    positions = along(np.arange(depth), axis, node.rank() + 1, node.dtype())
    hit = op.equal(op.expand_dims(node[0], axis=axis, num_newaxis=1), positions)
    return op.where(hit, reshape(node[2], ()), reshape(node[3], ()))


@converts("TOPK_V2")
def convert_topk(node: Node) -> list[Expr]:
    found = op.topk(node[0], k=node.ints(1, "count")[0], axis=-1, ret_type="both", dtype="int32")
    return [found[0], cast(found[1], node.output(1).dtype)]


@converts("UNIQUE")
def convert_unique(node: Node) -> list[Expr]:
    found = op.unique(node[0], is_sorted=False)
    return [found[0], cast(found[2], node.output(1).dtype)]


@converts("SPARSE_TO_DENSE")
def convert_sparse_to_dense(node: Node) -> Expr:
    """Inputs: indices, shape, values, what stands elsewhere."""
    shape, indices = node.ints(1, "shape"), node[0]
    if node.rank() < 2:
        indices = reshape(indices, (-1 if node.rank() else 1, 1))
    count = shape_of(indices)[0]
    dense = op.broadcast_to(reshape(node[3], ()), shape=tuple(shape))
    values = broadcast_to(node[2], (count,))
    return scatter_nd(dense, indices, values)


@converts("DYNAMIC_UPDATE_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE")
def convert_dynamic_update_slice(node: Node) -> Expr:
    """The data with `update` in it from a position on, moved so that it fits."""
    starts, update = cast(node[2], "int32"), node.shape(1)
    positions: list[Expr] = []
    for axis, (whole, extent) in enumerate(zip(node.shape(), update)):
        first = op.clip(index_axis(starts, 0, axis), 0, whole - extent)
        positions.append(broadcast_to(along(np.arange(extent), axis, len(update), "int32") + first, update))
    if not positions:
        return node[1]
    return op.scatter_nd(node[0], op.stack(positions, axis=0), node[1], mode="update")
