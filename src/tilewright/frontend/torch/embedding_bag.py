"""Rows of a table combined by bags, which are runs of indices, and their gradients."""

from __future__ import annotations

import math

from tilewright.frontend.idioms import broadcast_to, cast, constant, full, like, rank_of, shape_of
from tilewright.frontend.torch.build import arange, element_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

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
        results.append(cast(value, dtype) if shape == shape_of(value) else full(0, shape, dtype))
    return results


def _divisor(size: Expr, rows: Expr) -> Expr:
    """The number of rows of a bag, 1 for an empty one."""
    return op.maximum(cast(size, element_type(rows)), 1)


@converts("aten._embedding_bag_backward", "aten._embedding_bag_dense_backward")
def convert_embedding_bag_backward(node: TorchNode) -> Expr:
    gradient, indices = node["grad"], cast(node["indices"], "int64")
    if node.get("sparse") or node["scale_grad_by_freq"]:
        node.unsupported("a sparse gradient, or one divided by how often an index occurs,")
    zeros = full(0, node.shape, node.dtype)
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
