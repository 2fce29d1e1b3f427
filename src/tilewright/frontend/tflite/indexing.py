"""Gathering, scattering, sorting and searching."""

from __future__ import annotations

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.idioms import broadcast_to, cast, constant, reshape, shape_of
from tilewright.frontend.tflite.node import Node
from tilewright.frontend.tflite.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr, TupleGetItem


@converts("GATHER")
def convert_gather(node: Node) -> Expr:
    axis, batch = node.axis(int(node.option("axis", 0))), int(node.option("batch_dims", 0))
    batch += node.rank(1) if batch < 0 else 0
    indices = node[1]
    if not batch:
        return op.take(node[0], indices, axis=axis, mode="clip")
    shape, positions = node.shape(), node.shape(1)
    if shape[:batch] != positions[:batch] or axis < batch:
        raise ModelError(f"{node.label}: batches {list(positions[:batch])} of data {list(shape)}")
    order = (*range(batch), axis, *(i for i in range(batch, len(shape)) if i != axis))
    coordinates = [
        broadcast_to(
            reshape(constant(np.arange(extent), "int32"), (*(1,) * i, extent, *(1,) * (len(positions) - i - 1))),
            positions,
        )
        for i, extent in enumerate(positions[:batch])
    ]
    index = op.stack([*coordinates, cast(indices, "int32")], axis=0)
    gathered = op.gather_nd(op.transpose(node[0], axes=order), index)
    # The gathered axes stand behind the batches; those that were before the axis belong in front of them.
    own, before = len(positions) - batch, axis - batch
    axes = (*range(batch), *range(batch + own, batch + own + before), *range(batch, batch + own),
            *range(batch + own + before, len(shape_of(gathered))))  # fmt: skip
    return op.transpose(gathered, axes=axes)


@converts("GATHER_ND")
def convert_gather_nd(node: Node) -> Expr:
    rank = node.rank(1)
    return op.gather_nd(node[0], op.transpose(node[1], axes=(rank - 1, *range(rank - 1))))


@converts("SCATTER_ND")
def convert_scatter_nd(node: Node) -> Expr:
    """Inputs: indices, updates, shape; updates of one position add up."""
    shape, rank = node.ints(2, "shape"), node.rank()
    zeros = constant(np.zeros(shape), node.dtype(1))
    return op.scatter_nd(zeros, op.transpose(node[0], axes=(rank - 1, *range(rank - 1))), node[1], mode="add")


@converts("EMBEDDING_LOOKUP")
def convert_embedding_lookup(node: Node) -> Expr:
    """Inputs: row numbers, table; a quantized table gives real numbers where the output is float."""
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
    axis = int(node.option("axis", -1))
    axis = node.axis(axis, node.rank() + 1)
    positions = constant(
        np.arange(depth).reshape([depth if i == axis else 1 for i in range(node.rank() + 1)]), node.dtype()
    )
    hit = op.equal(op.expand_dims(node[0], axis=axis, num_newaxis=1), positions)
    return op.where(hit, reshape(node[2], ()), reshape(node[3], ()))


@converts("TOPK_V2")
def convert_topk(node: Node) -> list[Expr]:
    found = op.topk(node[0], k=node.ints(1, "count")[0], axis=-1, ret_type="both", dtype="int32")
    return [TupleGetItem(found, 0), cast(TupleGetItem(found, 1), node.output(1).dtype)]


@converts("WHERE")
def convert_where(node: Node) -> Expr:
    return cast(op.argwhere(node[0]), node.output().dtype)


@converts("UNIQUE")
def convert_unique(node: Node) -> list[Expr]:
    found = op.unique(node[0], is_sorted=False)
    return [TupleGetItem(found, 0), cast(TupleGetItem(found, 2), node.output(1).dtype)]


@converts("SPARSE_TO_DENSE")
def convert_sparse_to_dense(node: Node) -> Expr:
    """Inputs: indices, shape, values, what stands elsewhere."""
    shape, indices = node.ints(1, "shape"), node[0]
    if node.rank() < 2:
        indices = reshape(indices, (-1 if node.rank() else 1, 1))
    count = shape_of(indices)[0]
    dense = op.broadcast_to(reshape(node[3], ()), shape=tuple(shape))
    values = broadcast_to(node[2], (count,))
    return op.scatter_nd(dense, op.transpose(indices, axes=(1, 0)), values, mode="update")


@converts("DYNAMIC_UPDATE_SLICE", "STABLEHLO_DYNAMIC_UPDATE_SLICE")
def convert_dynamic_update_slice(node: Node) -> Expr:
    """The data with `update` in it from a position on, moved so that it fits."""
    shape, update = node.shape(), node.shape(1)
    index = _starts(node, shape, update)
    positions: list[Expr] = []
    for axis, extent in enumerate(update):
        own = constant(np.arange(extent).reshape([-1 if i == axis else 1 for i in range(len(update))]), "int32")
        positions.append(broadcast_to(own + index[axis], update))
    if not positions:
        return node[1]
    return op.scatter_nd(node[0], op.stack(positions, axis=0), node[1], mode="update")


def _starts(node: Node, shape: tuple[int, ...], sizes: tuple[int, ...]) -> list[Expr]:
    starts = cast(node[2], "int32")
    found: list[Expr] = []
    for axis, (extent, size) in enumerate(zip(shape, sizes)):
        start = reshape(op.strided_slice(starts, begin=(axis,), end=(axis + 1,)), ())
        found.append(op.clip(start, 0, extent - size))
    return found
