"""Operators that read and write elements by index, and sums of rows (bags) of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.idioms import broadcast_to, cast, constant, like, product, rank_of, reshape, shape_of
from tilewright.frontend.torch.build import arange, element_type, extent_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.reduce import p_norm
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.selection import index_by_mask
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

_REDUCTIONS = {
    "sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min",
}  # fmt: skip


def from_front(indices: Expr, extent: Any) -> Expr:
    """Indices with negative ones counted from the back of an axis."""
    if isinstance(indices, Constant):
        return Constant(np.where(indices.data < 0, indices.data + extent, indices.data))
    count = extent if isinstance(extent, int) else cast(extent_of(extent), element_type(indices))
    return op.where(indices < 0, indices + count, indices)


@converts("aten.embedding")
def convert_embedding(weight: Expr, indices: Expr) -> Expr:
    return op.take(weight, indices, axis=0, mode="clip")


@converts("aten.embedding_renorm")
def convert_embedding_renorm(weight: Expr, max_norm: Any, norm_type: Any, indices: Expr) -> Expr:
    """The rows that are looked up made shorter where they are longer than `max_norm`."""
    size = p_norm(weight, (1,), float(norm_type), True)
    factor = like(max_norm, size) / (size + 1e-7)
    count = shape_of(weight)[0]
    positions = reshape(indices, (product(shape_of(indices)), 1))
    met = op.any(op.equal(positions, constant(np.arange(count), element_type(positions))), axis=(0,))
    shorter = op.logical_and(reshape(met, (count, 1)), size > max_norm)
    return op.where(shorter, weight * factor, weight)


@converts("aten.index_select")
def convert_index_select(node: TorchNode, data: Expr, index: Expr) -> Expr:
    if not rank_of(data):
        return data
    if not rank_of(index):
        index = reshape(index, (1,))
    return op.take(data, index, axis=node.axis(node["dim"]), mode="clip")


@converts("aten.take")
def convert_take(node: TorchNode) -> Expr:
    count = product(shape_of(node["self"]))
    return op.take(idioms.as_vector(node["self"]), from_front(node["index"], count), axis=0, mode="clip")


@converts("aten.gather")
def convert_gather(node: TorchNode, data: Expr, index: Expr) -> Expr:
    """out[i][j] = self[index[i][j]][j] along axis 0."""
    if not rank_of(data) or not rank_of(index):
        return reshape(op.take(idioms.as_vector(data), index, axis=0, mode="clip"), node.shape)
    if any(isinstance(extent, int) and extent == 0 for extent in node.shape):
        return op.zeros(shape=node.shape, dtype=str(node.dtype))
    axis = node.axis(node["dim"])
    return op.gather(_cut(data, shape_of(index), axis), axis=axis, indices=index)


def _cut(data: Expr, shape: Sequence[object], but: int | None = None) -> Expr:
    """`data` with as many slices as the indices have along all axes but one."""
    for axis, extent in enumerate(shape):
        if axis != but:
            data = idioms.slice_axis(data, axis, 0, extent)
    return data


@converts("aten.take_along_dim")
def convert_take_along_dim(node: TorchNode) -> Expr:
    """As gather, with both broadcast; without an axis of the tensor as one vector."""
    data, index = node["self"], node["indices"]
    if node["dim"] is None:
        return op.take(idioms.as_vector(data), reshape(index, node.shape), axis=0, mode="clip")
    axis = node.axis(node["dim"])
    shape = [shape_of(data)[axis] if position == axis else extent for position, extent in enumerate(node.shape)]
    extent = shape_of(data)[axis]
    return op.gather(broadcast_to(data, shape), axis=axis, indices=from_front(broadcast_to(index, node.shape), extent))


def _positions(node: TorchNode) -> tuple[list[Expr], list[int]]:
    """The index tensors of an advanced index, broadcast to one shape, and the axes that they stand for."""
    given = [(axis, index) for axis, index in enumerate(node["indices"]) if index is not None]
    if any(element_type(index).is_bool for _, index in given):
        node.unsupported("an index by truth values, whose number a run can tell only,")
    shapes = [np.empty(shape_of(index)).shape if is_static(shape_of(index)) else None for _, index in given]
    if None in shapes:
        together: Expr = given[0][1]
        for _, index in given[1:]:
            together = together + cast(index, element_type(together))
        shape = shape_of(together)
    else:
        shape = np.broadcast_shapes(*shapes)  # type: ignore[arg-type]
    indices = [
        broadcast_to(from_front(cast(index, "int64"), shape_of(node["self"])[axis]), shape) for axis, index in given
    ]
    return indices, [axis for axis, _ in given]


@converts("aten.index", "aten._unsafe_index")
def convert_index(node: TorchNode, data: Expr) -> Expr:
    """Advanced indexing: the axes of the indices come where the indexed axes were, or first where those lie apart."""
    masks = [(axis, index) for axis, index in enumerate(node["indices"]) if index is not None]
    if len(masks) == 1 and element_type(masks[0][1]).is_bool:
        return index_by_mask(node, data, masks[0][1], masks[0][0])
    indices, axes = _positions(node)
    if len(axes) == 1:
        return op.take(data, indices[0], axis=axes[0], mode="clip")
    rest = [axis for axis in range(rank_of(data)) if axis not in axes]
    made: Expr = op.gather_nd(idioms.transpose(data, [*axes, *rest]), op.stack(indices, axis=0))
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    for _ in range(rank_of(indices[0]) if together and axes[0] else 0):
        made = idioms.move_axis(made, 0, rank_of(indices[0]) - 1 + axes[0])
    return made


@converts("aten.index_put", "aten._unsafe_index_put", "aten._index_put_impl")
def convert_index_put(node: TorchNode, data: Expr, accumulate: bool) -> Expr:
    masks = [index for index in node["indices"] if index is not None and element_type(index).is_bool]
    if masks:
        return _masked_put(node, masks)
    indices, axes = _positions(node)
    rest = [axis for axis in range(rank_of(data)) if axis not in axes]
    order = [*axes, *rest]
    moved = idioms.transpose(data, order)
    lead = shape_of(indices[0])
    inner = tuple(shape_of(data)[axis] for axis in rest)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    values = node.tensor("values")
    if together and axes[0]:
        before, after = inner[: axes[0]], inner[axes[0] :]
        spread = broadcast_to(values, (*before, *lead, *after))
        count, first = len(lead), len(before)
        values = idioms.transpose(
            spread, [*range(first, first + count), *range(first), *range(first + count, rank_of(spread))]
        )
    else:
        values = broadcast_to(values, (*lead, *inner))
    mode = "add" if accumulate else "update"
    made = op.scatter_nd(moved, op.stack(indices, axis=0), values, mode=mode)
    return idioms.transpose(made, np.argsort(order).tolist())


def _masked_put(node: TorchNode, masks: list[Expr]) -> Expr:
    """One value, or those of a tensor in order, where a mask over the first axes holds."""
    data, values = node["self"], node.tensor("values")
    if len(node["indices"]) != 1:
        node.unsupported("writing by several indices of which one is a mask")
    if product(shape_of(values)) != 1:
        return _put_in_order(node, data, masks[0], values)
    mask = reshape(masks[0], (*shape_of(masks[0]), *[1] * (rank_of(data) - rank_of(masks[0]))))
    value = reshape(values, ())
    return op.where(mask, data + value if node["accumulate"] else value, data)


def _put_in_order(node: TorchNode, data: Expr, mask: Expr, values: Expr) -> Expr:
    """The slices where the mask holds replaced by those of `values` one after another."""
    covered, shape = rank_of(mask), shape_of(data)
    count = product(shape_of(mask))
    rows = reshape(data, (count, *shape[covered:]))
    holds = reshape(mask, (count,))
    if rank_of(values) == rank_of(rows) and shape_of(values)[0] != 1:
        numbers = op.cumsum(cast(holds, "int64"), axis=0) - 1
        values = op.take(values, numbers, axis=0, mode="clip")
    held = reshape(holds, (count, *[1] * (rank_of(rows) - 1)))
    return reshape(op.where(held, rows + values if node["accumulate"] else values, rows), shape)


@converts("aten.scatter", "aten.scatter_add", "aten.scatter_reduce")
def convert_scatter(node: TorchNode, data: Expr, index: Expr, dim: Any, include_self: Any = None) -> Expr:
    """out[index[i][j]][j] = src[i][j] along axis 0, or combined with what is there."""
    given = node.get("reduce", "add" if "scatter_add" in node.target else None)
    source = node.tensor("src") if "src" in node.arguments else node.tensor("value")
    if not rank_of(data):
        data, index = reshape(data, (1,)), reshape(index, (1,))
        source = reshape(source, (1,)) if "src" in node.arguments else source
    if any(isinstance(extent, int) and extent == 0 for extent in shape_of(index)):
        return reshape(data, node.shape)
    axis = node.axis(dim, rank_of(data))
    source = broadcast_to(source, shape_of(index)) if not rank_of(source) else _cut(source, shape_of(index))
    if given is None or given in _REDUCTIONS:
        if include_self is False:
            return reshape(_without_self(node, data, index, source, axis, given), node.shape)
        mode = "update" if given is None else _REDUCTIONS[given]
        return reshape(op.scatter_elements(data, index, source, axis, mode), node.shape)
    if given != "mean":
        node.unsupported(f"the reduction {given}")
    return reshape(_mean(node, data, index, source, axis), node.shape)


_NEUTRAL = {"sum": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


def _without_self(node: TorchNode, data: Expr, index: Expr, source: Expr, axis: int, given: str) -> Expr:
    """Reduced over the sources alone, where there are any."""
    dtype = element_type(data)
    value = _NEUTRAL[given]
    if np.isinf(value):
        value = dtype.extremes()[0 if value < 0 else 1]
    neutral = op.scatter_elements(data, index, broadcast_to(like(value, data), shape_of(index)), axis, "update")
    return op.scatter_elements(neutral, index, source, axis, _REDUCTIONS[given])


def _mean(node: TorchNode, data: Expr, index: Expr, source: Expr, axis: int) -> Expr:
    if not element_type(data).is_float:
        node.unsupported("the mean of integers")
    ones = broadcast_to(like(1, data), shape_of(index))
    zeros = broadcast_to(like(1, data), shape_of(data)) * 0
    count: Expr = op.scatter_elements(zeros, index, ones, axis, "add")
    if node.get("include_self") is False:
        start: Expr = op.where(count > 0, 0, data)
        count = op.maximum(count, 1)
    else:
        start, count = data, count + 1
    return op.scatter_elements(start, index, source, axis, "add") / count


@converts("aten.index_add", "aten.index_copy", "aten.index_fill", "aten.index_reduce")
def convert_index_add(node: TorchNode, data: Expr, index: Expr, dim: Any) -> Expr:
    name = node.target.split(".")[1]
    scalar = not rank_of(data)
    data = reshape(data, (1,)) if scalar else data
    axis = node.axis(dim, rank_of(data))
    index = from_front(cast(idioms.as_vector(index), "int64"), shape_of(data)[axis])
    if is_static(shape_of(index)) and not shape_of(index)[0]:
        return reshape(data, node.shape)
    shape = [shape_of(index)[0] if position == axis else extent for position, extent in enumerate(shape_of(data))]
    source = node.tensor("value" if name == "index_fill" else "source")
    source = broadcast_to(source, shape) if not rank_of(source) else reshape(source, shape)
    if node.get("alpha", 1) != 1:
        source = source * node["alpha"]
    positions = broadcast_to(idioms.on_axis(index, axis, len(shape)), shape)
    if name == "index_reduce":
        given = node["reduce"]
        if given == "mean":
            return reshape(_mean(node, data, positions, source, axis), node.shape)
        if node["include_self"] is False:
            return reshape(_without_self(node, data, positions, source, axis, given), node.shape)
        return reshape(op.scatter_elements(data, positions, source, axis, _REDUCTIONS[given]), node.shape)
    mode = "add" if name == "index_add" else "update"
    return reshape(op.scatter_elements(data, positions, source, axis, mode), node.shape)


@converts("aten.put")
def convert_put(node: TorchNode, data: Expr, accumulate: bool) -> Expr:
    count, positions = product(shape_of(data)), product(shape_of(node["index"]))
    index = reshape(from_front(node["index"], count), (positions,))
    mode = "add" if accumulate else "update"
    source = reshape(node["source"], (positions,))
    return reshape(op.scatter_elements(reshape(data, (count,)), index, source, 0, mode), node.shape)


@converts("aten.masked_scatter")
def convert_masked_scatter(node: TorchNode, data: Expr, source: Expr) -> Expr:
    mask = broadcast_to(node["mask"], node.shape)
    count = product(node.shape)
    flat = cast(reshape(mask, (count,)), "int64")
    positions = op.cumsum(flat, axis=0) - 1
    taken = op.take(idioms.as_vector(source), positions, axis=0, mode="clip")
    return op.where(mask, reshape(taken, node.shape), broadcast_to(data, node.shape))


# --------------------------------------------------------------------------------------------------- Bags of embeddings
_SUM, _MEAN, _MAX = 0, 1, 2


def _bag_of_each(node: TorchNode) -> Expr:
    """The bag that each index is in: that of the last offset which is not behind it."""
    if rank_of(node["indices"]) != 1:
        node.unsupported("indices of two axes")
    steps, offsets = arange(shape_of(node["indices"])[0]), cast(node["offsets"], "int64")
    begun = op.expand_dims(offsets, axis=0) <= op.expand_dims(steps, axis=1)
    return op.sum(cast(begun, "int64"), axis=(1,)) - 1


def _counts(node: TorchNode) -> Expr | None:
    """True for the indices that count; None where all do."""
    indices, left_out = node["indices"], node["padding_idx"]
    return op.not_equal(indices, like(left_out, indices)) if left_out >= 0 else None


@converts("aten._embedding_bag_forward_only", "aten._embedding_bag")
def convert_embedding_bag(node: TorchNode) -> list[Expr]:
    """The sum, mean or maximum of each bag's rows; of each index its bag, of each bag its size and largest rows."""
    weight, indices, count = node["weight"], node["indices"], node.shape_at(0)[0]
    bag = _bag_of_each(node)
    mine = op.equal(op.expand_dims(bag, axis=0), op.expand_dims(arange(count), axis=1))
    counted = _counts(node)
    mine = mine if counted is None else op.logical_and(mine, counted)
    rows = op.take(weight, indices, axis=0, mode="clip")
    if node["per_sample_weights"] is not None:
        rows = rows * op.expand_dims(node["per_sample_weights"], axis=1)
    mask, wide = op.expand_dims(mine, axis=2), op.expand_dims(rows, axis=0)
    size = op.sum(cast(mine, "int64"), axis=(1,))
    largest: Expr = size
    if node["mode"] == _MAX:
        kept = op.where(mask, wide, -math.inf)
        nothing = op.expand_dims(op.equal(size, 0), axis=1)
        made = op.where(nothing, 0, op.max(kept, axis=(1,)))
        first = op.argmax(kept, axis=1, keepdims=False, dtype="int64")
        largest = op.where(nothing, constant(0, "int64"), op.take(cast(indices, "int64"), first, axis=0, mode="clip"))
    else:
        made = op.sum(op.where(mask, wide, 0), axis=(1,))
        if node["mode"] == _MEAN:
            made = made / op.expand_dims(_divisor(size, rows), axis=1)
    results: list[Expr] = [made]
    for index, value in ((1, bag), (2, size), (3, largest)):
        shape, dtype = node.shape_at(index), node.dtype_at(index)
        results.append(cast(value, dtype) if shape == shape_of(value) else idioms.full(0, shape, dtype))
    return results


def _divisor(size: Expr, rows: Expr) -> Expr:
    """The number of rows of a bag, 1 for an empty one."""
    return op.maximum(cast(size, element_type(rows)), 1)


@converts("aten._embedding_bag_backward", "aten._embedding_bag_dense_backward")
def convert_embedding_bag_backward(node: TorchNode) -> Expr:
    gradient, indices = node["grad"], cast(node["indices"], "int64")
    if node.get("sparse") or node["scale_grad_by_freq"]:
        node.unsupported("a sparse gradient, or one divided by how often an index occurs,")
    zeros = idioms.full(0, node.shape, node.dtype)
    bag = _bag_of_each(node)
    counted = _counts(node)
    if node["mode"] == _MAX:
        filled = node["bag_size"] > constant(0, element_type(node["bag_size"]))
        pulled = op.where(op.expand_dims(filled, axis=1), gradient, 0)
        return op.scatter_elements(zeros, cast(node["maximum_indices"], "int64"), pulled, 0, "add")
    if node["mode"] == _MEAN:
        ones = arange(shape_of(gradient)[0])
        mine = op.equal(op.expand_dims(bag, axis=0), op.expand_dims(ones, axis=1))
        mine = mine if counted is None else op.logical_and(mine, counted)
        size = op.sum(cast(mine, "int64"), axis=(1,))
        gradient = gradient / op.expand_dims(_divisor(size, gradient), axis=1)
    each = op.take(gradient, bag, axis=0, mode="clip")
    if node["per_sample_weights"] is not None:
        each = each * op.expand_dims(node["per_sample_weights"], axis=1)
    if counted is not None:
        each = op.where(op.expand_dims(counted, axis=1), each, 0)
    positions = broadcast_to(op.expand_dims(indices, axis=1), shape_of(each))
    return op.scatter_elements(zeros, positions, each, 0, "add")


@converts("aten._embedding_bag_per_sample_weights_backward")
def convert_embedding_bag_weights_backward(node: TorchNode) -> Expr:
    """The gradient of the weight of each index: its row times the gradient of its bag, summed."""
    rows = op.take(node["weight"], node["indices"], axis=0, mode="clip")
    found = op.sum(op.take(node["grad"], _bag_of_each(node), axis=0, mode="clip") * rows, axis=(1,))
    counted = _counts(node)
    return found if counted is None else op.where(counted, found, 0)
