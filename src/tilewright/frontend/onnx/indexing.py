"""Operators that read elements by index."""

from __future__ import annotations

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.builders.elements import diagonals
from tilewright.frontend.idioms import broadcast_to, cast, concatenate, constant, index_axis, slice_axis
from tilewright.frontend.onnx.dims import is_static
from tilewright.frontend.onnx.node import OnnxNode, reshape, transpose
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr, TupleGetItem


@converts("Gather")
def convert_gather(node: OnnxNode) -> Expr:
    """Slices of one axis picked by an index tensor; one constant index is a plain slice."""
    axis, shape = node.named_axis(0), node.shape()
    indices = node.array(1)
    if indices is None or not isinstance(shape[axis], int):
        return op.take(node[0], node[1], axis=axis, mode="from_back")
    picked = _checked(node, indices, shape[axis])
    if picked.size != 1 or isinstance(node[0], Constant):
        return op.take(node[0], Constant(picked), axis=axis, mode="from_back")
    position = int(picked.reshape(-1)[0])
    row = slice_axis(node[0], axis, position, position + 1)
    return reshape(node, row, (*shape[:axis], *picked.shape, *shape[axis + 1 :]))


def _checked(node: OnnxNode, indices: np.ndarray, extent: int) -> np.ndarray:
    """Constant `indices` counted from the front; one beyond the extent is a `ModelError`."""
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise ModelError(f"{node.label}: an index is out of range for the extent {extent}")
    return indices if not (indices < 0).any() else np.where(indices < 0, indices + extent, indices)


# out[i][j] = data[index[i][j]][j] along axis 0
converts.functions({
    "GatherElements": lambda node: op.gather(node[0], axis=node.named_axis(0), indices=node[1]),
}, since=11)  # fmt: skip


@converts("GatherND", since=11)
@converts("GatherND", domain=MICROSOFT)
def convert_gather_nd(node: OnnxNode) -> Expr:
    """Slices picked by index tuples, which ONNX keeps in the last axis and Relay in the first."""
    rank = node.rank(1)
    indices = transpose(node[1], (rank - 1, *range(rank - 1)))
    return op.gather_nd(node[0], indices, batch_dims=int(node.attr("batch_dims", 0)))


@converts("OneHot", since=9)
def convert_one_hot(node: OnnxNode) -> Expr:
    depth = int(node.static(1, "depth").reshape(-1)[0])
    if depth < 0:
        raise ModelError(f"{node.label}: the depth {depth} is negative")
    axis = node.named_axis(-1, node.rank() + 1)
    off, on = (reshape(node, index_axis(node[2], 0, position), ()) for position in (0, 1))
    return op.one_hot(cast(node[0], "int64"), on, off, depth=depth, axis=axis, dtype=str(node.dtype(2)))


@converts("Trilu", since=14)
@converts("Trilu", domain=MICROSOFT)
def convert_trilu(node: OnnxNode, upper: int = 1) -> Expr:
    diagonal = int(node.static(1, "diagonal").reshape(-1)[0]) if node.has(1) else 0
    if not is_static(node.shape()[-2:]):
        node.unsupported("matrices of symbolic extent")
    return diagonals(node[0], diagonal, None) if upper else diagonals(node[0], None, diagonal)


@converts("Compress", since=9)
def convert_compress(node: OnnxNode) -> Expr:
    """The slices where a constant condition holds."""
    picked = np.flatnonzero(node.static(1, "condition"))
    axis = node.attr("axis")
    if axis is None:
        return op.take(
            reshape(node, node[0], (int(np.prod(node.shape())),)), Constant(picked), axis=0, mode="from_back"
        )
    return op.take(node[0], Constant(picked), axis=node.named_axis(0), mode="from_back")


@converts("ReverseSequence", since=10)
def convert_reverse_sequence(node: OnnxNode, x: Expr, batch_axis: int = 1, time_axis: int = 0) -> Expr:
    """The first `length` steps of each sample in reverse, for constant lengths."""
    lengths = Constant(node.static(1, "sequence_lens"))
    return op.reverse_sequence(x, lengths, seq_axis=time_axis, batch_axis=batch_axis)


@converts("CumSum", since=11)
def convert_cumsum(node: OnnxNode, x: Expr, exclusive: bool = False, reverse: bool = False) -> Expr:
    """Running sum along a constant axis."""
    axis = node.axis(int(node.static(1, "axis").reshape(-1)[0]), node.rank())
    return op.cumsum(x, axis=axis, exclusive=exclusive, reverse=reverse)


_REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}


@converts("ScatterElements", "Scatter", since=9)
def convert_scatter_elements(node: OnnxNode) -> Expr:
    """data with single elements replaced or combined: out[index[i][j]][j] = updates[i][j] along axis 0."""
    axis = node.named_axis(0)
    reduction = _REDUCTIONS[node.choice("reduction", "none", tuple(_REDUCTIONS))]
    indices = node.array(1)
    picked = node[1] if indices is None else Constant(_checked(node, indices, node.shape()[axis]))
    if reduction == "update" and isinstance(picked, Constant):
        positions: list[np.ndarray] = list(np.indices(picked.data.shape))
        positions[axis] = picked.data
        return _scatter(node, np.asarray(np.ravel_multi_index(tuple(positions), node.shape())))
    return op.scatter_elements(node[0], _from_front(node, picked, node.shape()[axis]), node[2], axis, reduction)


def _from_front(node: OnnxNode, indices: Expr, extent: int) -> Expr:
    """Indices computed at run time, negative ones counted from the front."""
    if isinstance(indices, Constant):
        return indices
    return op.where(indices < 0, indices + extent, indices)


@converts("ScatterND", since=11)
def convert_scatter_nd(node: OnnxNode) -> Expr:
    reduction = _REDUCTIONS[node.choice("reduction", "none", tuple(_REDUCTIONS))]
    indices, shape = node.array(1), node.shape()
    depth = node.shape(1)[-1]
    if indices is None or reduction != "update":
        rank = node.rank(1)
        extents = constant(np.array(shape[:depth]), node.dtype(1))
        found = node[1]
        front = op.where(found < 0, found + extents, found)
        return op.scatter_nd(node[0], transpose(front, (rank - 1, *range(rank - 1))), node[2], mode=reduction)
    columns = [_checked(node, indices[..., axis], shape[axis]) for axis in range(depth)]
    rows = np.ravel_multi_index(tuple(columns), shape[:depth]) if depth else np.zeros(indices.shape[:-1], np.int64)
    block = int(np.prod(shape[depth:], dtype=np.int64))
    return _scatter(node, rows.reshape(-1, 1) * block + np.arange(block))


def _scatter(node: OnnxNode, positions: np.ndarray) -> Expr:
    """The input with the elements at flat `positions` replaced by the updates: one gather from both laid end to end."""
    shape = node.shape()
    count = int(np.prod(shape, dtype=np.int64))
    source = np.arange(count)
    source[positions.reshape(-1)] = count + np.arange(positions.size)
    both = concatenate([reshape(node, node[0], (count,)), reshape(node, node[2], (positions.size,))], 0)
    return op.take(both, Constant(source.reshape(shape)), axis=0, mode="from_back")


@converts("TensorScatter", since=24)
def convert_tensor_scatter(node: OnnxNode) -> Expr:
    """A cache with rows written from a position that each sample has, onwards, or round in a circle."""
    shape, rank = node.shape(), node.rank()
    axis = node.named_axis(-2)
    steps, extent = node.shape(1)[axis], shape[axis]
    offset = constant(np.arange(steps), "int64")
    if node.has(2):
        start = reshape(node, cast(node[2], "int64"), (shape[0], 1))
    else:
        start = constant(np.zeros((shape[0], 1)), "int64")
    position = start + offset
    if node.choice("mode", "linear", ("linear", "circular")) == "circular":
        position = op.floor_mod(position, constant(extent, "int64"))
    spread = [shape[0] if i == 0 else steps if i == axis else 1 for i in range(rank)]
    indices = broadcast_to(reshape(node, position, spread), node.shape(1))
    return op.scatter_elements(node[0], indices, node[1], axis, "update")


# The count is an attribute before opset 10, and a constant input from then on.
converts.functions({"TopK": lambda node: _top_k(node, int(node.require("k")))})
converts.functions({"TopK": lambda node: _top_k(node, int(node.static(1, "K").reshape(-1)[0]))}, since=10)


def _top_k(node: OnnxNode, count: int) -> list[Expr]:
    """Values and positions of the `count` largest or smallest elements along an axis, in order."""
    axis = node.named_axis(-1)
    extent = node.shape()[axis]
    if count < 0 or (isinstance(extent, int) and count > extent):
        raise ModelError(f"{node.label}: cannot take {count} of {extent} elements")
    node.ignore("sorted")
    ascending = not node.attr("largest", 1)
    if count == 0:
        shape = tuple(0 if d == axis else size for d, size in enumerate(node.shape()))
        return [op.zeros(shape, str(node.dtype())), op.zeros(shape, "int64")]
    found = op.topk(node[0], count, axis, "both", ascending, "int64")
    return [TupleGetItem(found, 0), TupleGetItem(found, 1)]
