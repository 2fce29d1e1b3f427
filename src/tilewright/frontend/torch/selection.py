"""Operators that find or pick elements, so that the data decides how many there are: these sizes are `Any`."""

from __future__ import annotations

from typing import Any

from tilewright.frontend import idioms
from tilewright.frontend.idioms import as_vector, cast, constant, full, rank_of, reshape, shape_of, slice_axis
from tilewright.frontend.torch.build import element_type
from tilewright.frontend.torch.math import to_type
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.types import is_empty
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.relay.ir.type import Any as AnyDim
from tilewright.relay.ir.type import TensorType, TupleType
from tilewright.relay.op.onnx_host import host_call


def positions_of(condition: Expr) -> Expr:
    """The positions in a vector of truth values, or of numbers, of what is true or not 0."""
    return cast(idioms.index_axis(op.argwhere(condition), 1, 0), "int64")


@converts("aten.nonzero", "aten.argwhere", "aten.nonzero_numpy")
def convert_nonzero(node: TorchNode, data: Expr) -> Expr | list[Expr]:
    rank = rank_of(data)
    if not rank:
        there = op.argwhere(reshape(data, (1,)))
        found = slice_axis(cast(there, "int64"), 1, 0, 0) if "numpy" not in node.target else cast(there, "int64")
    else:
        found = cast(op.argwhere(data), "int64")
    if "numpy" not in node.target:
        return found
    return [idioms.index_axis(found, 1, axis) for axis in range(max(rank, 1))]


@converts("aten.nonzero_static")
def convert_nonzero_static(node: TorchNode) -> Expr:
    """The first `size` coordinates, and where there are fewer a number instead."""
    size, columns = node.shape
    rest = full(node["fill_value"], (size, columns), "int64")
    if not columns or is_empty(shape_of(node["self"])):
        return rest
    return slice_axis(idioms.concatenate([cast(op.argwhere(node["self"]), "int64"), rest], 0), 0, 0, size)


@converts("aten.masked_select")
def convert_masked_select(data: Expr, mask: Expr) -> Expr:
    together = shape_of(op.zeros(shape=shape_of(mask), dtype="int32") + op.zeros(shape=shape_of(data), dtype="int32"))
    chosen = positions_of(as_vector(idioms.broadcast_to(mask, together)))
    return op.take(as_vector(idioms.broadcast_to(data, together)), chosen, axis=0, mode="clip")


@converts("aten.repeat_interleave.Tensor", "aten.repeat_interleave.self_Tensor")
def convert_repeat_by_tensor(node: TorchNode) -> Expr:
    """Every slice of an axis as often as a vector says; without data, the positions of the slices."""
    counts = cast(node["repeats"], "int64")
    data: Expr | None = node.get("self")
    axis = 0
    if data is not None:
        data = as_vector(data) if node["dim"] is None else data
        axis = 0 if node["dim"] is None else node.axis(node["dim"], rank_of(data))
        if not rank_of(counts) or shape_of(counts) == (1,):
            counts = idioms.broadcast_to(counts, (shape_of(data)[axis],))
    ends = op.cumsum(counts, axis=0)
    total = op.squeeze(slice_axis(ends, 0, shape_of(ends)[0] - 1, shape_of(ends)[0]), axis=(0,))
    steps = _numbers(total)
    positions = op.searchsorted(ends, steps, right=True, dtype="int64")
    return positions if data is None else op.take(data, positions, axis=axis, mode="clip")


def _numbers(count: Expr) -> Expr:
    """0, 1, … before a number that a run computes."""
    return host_call("Range", [_zero(), count, constant(1, "int64")], TensorType((AnyDim(),), "int64"))


def position_of_run(node: TorchNode, position: Any, extent: Any) -> Expr:
    """A position on an axis of `extent` elements that a run computes, as a scalar counted from the front."""
    found = reshape(node.as_tensor(position, "int64"), ())
    return op.where(found < _zero(), found + node.as_tensor(extent, "int64"), found)


def slice_of_run(node: TorchNode, data: Expr, axis: int, start: Any, end: Any, step: int) -> Expr:
    """Elements from `start` to `end` of an axis, of which a run computes one or both."""
    extent = shape_of(data)[axis]
    last = node.as_tensor(extent, "int64")
    begin, stop = (
        op.minimum(op.maximum(position_of_run(node, position, extent), _zero()), last)
        for position in (0 if start is None else start, extent if end is None else end)
    )
    positions = host_call("Range", [begin, stop, constant(step, "int64")], TensorType((AnyDim(),), "int64"))
    return op.take(data, positions, axis=axis, mode="clip")


@converts("aten._unique2", "aten.unique_dim", "aten._unique")
def convert_unique(node: TorchNode, data: Expr, dim: Any = None) -> list[Expr]:
    """The distinct elements, or slices of an axis, in order; the way back, and how many of each there are."""
    shape, options = shape_of(data), {"sorted": 1}
    if dim is not None:
        dim = node.axis(dim, rank_of(data))
        options["axis"] = dim
        kept: Any = [*shape[:dim], AnyDim(), *shape[dim + 1 :]]
        length = shape[dim]
    else:
        kept, length = [AnyDim()], idioms.product(shape)
    numbers = [TensorType((AnyDim(),), "int64"), TensorType((length,), "int64"), TensorType((AnyDim(),), "int64")]
    wanted = element_type(data)
    values = cast(data, "uint8") if wanted.is_bool else data
    types = TupleType([TensorType(kept, element_type(values)), *numbers])
    found = host_call("Unique", [values], types, **options)
    back = found[2] if dim is not None else reshape(found[2], shape)
    return [cast(found[0], wanted), *_if_wanted(node, back, found[3])]


def _if_wanted(node: TorchNode, back: Expr, counts: Expr) -> list[Expr]:
    """The way back and the counts, or what PyTorch returns where they are not requested."""
    wanted = (node["return_inverse"], node.get("return_counts", False))
    results = []
    for index, (value, keep) in enumerate(zip((back, counts), wanted), start=1):
        if index >= len(node.value):
            break
        shape = node.shape_at(index)
        empty = not keep and all(isinstance(extent, int) for extent in shape)
        results.append(full(0, shape, "int64") if empty else value)
    return results


@converts("aten.unique_consecutive", "aten.unique_dim_consecutive")
def convert_unique_consecutive(node: TorchNode, data: Expr, dim: Any = None) -> list[Expr]:
    """The elements, or slices of an axis, that differ from the one before; the way back, and lengths of the runs."""
    shape = shape_of(data)
    axis = 0 if dim is None else node.axis(dim)
    data = as_vector(data) if dim is None else data
    extent = shape_of(data)[axis]
    if extent == 0:
        back = full(0, shape if dim is None else (0,), "int64")
        return [full(0, node.shape_at(0), node.dtype), *_if_wanted(node, back, _numbers(_zero()))]
    after, before = slice_axis(data, axis, 1, extent), slice_axis(data, axis, 0, extent - 1)
    if element_type(data).is_bool:
        after, before = cast(after, "uint8"), cast(before, "uint8")
    differ = op.not_equal(after, before)
    rest = tuple(other for other in range(rank_of(data)) if other != axis)
    differ = op.any(differ, axis=rest) if rest else differ
    new = idioms.concatenate([constant([True], "bool"), differ], 0) if extent != 1 else constant([True], "bool")
    first = positions_of(new)
    values = op.take(data, first, axis=axis, mode="clip")
    back = op.cumsum(cast(new, "int64"), axis=0) - 1
    behind = op.strided_slice(first, begin=(1,), end=(2**31 - 1,), strides=(1,), axes=(0,))
    ends = idioms.concatenate([behind, constant([extent], "int64")], 0) if extent != 1 else constant([extent], "int64")
    return [values, *_if_wanted(node, reshape(back, shape) if dim is None else back, ends - first)]


def _zero() -> Expr:
    return constant(0, "int64")


def index_by_mask(node: TorchNode, data: Expr, mask: Expr, first: int) -> Expr:
    """The slices over the axes from `first` on that a mask covers, where it holds."""
    covered = rank_of(mask)
    shape = shape_of(data)
    if not covered:
        node.unsupported("an index that is one truth value")
    merged = reshape(data, (*shape[:first], idioms.product(shape[first : first + covered]), *shape[first + covered :]))
    return op.take(merged, positions_of(as_vector(mask)), axis=first, mode="clip")


converts.functions({
    "aten.item aten._local_scalar_dense": lambda node: reshape(node["self"], ()),
    "aten.is_nonzero": lambda node: reshape(to_type(node["self"], "bool"), ()),
})  # fmt: skip


@converts("aten.mode")
def convert_mode(node: TorchNode, data: Expr) -> list[Expr]:
    """The smallest of the most frequent elements of an axis, and the last position where it is."""
    if not rank_of(data):
        return [data, constant(0, "int64")]
    axis, keepdim = node.axis(node["dim"]), bool(node["keepdim"])
    plain = cast(data, "uint8") if element_type(data).is_bool else data
    same = op.equal(op.expand_dims(plain, axis=axis), op.expand_dims(plain, axis=axis + 1))
    counts = op.sum(cast(same, "int64"), axis=(axis + 1,))
    most = op.equal(counts, op.max(counts, axis=(axis,), keepdims=True))
    top = element_type(plain).extremes()[1]
    values = op.min(op.where(most, plain, idioms.like(top, plain)), axis=(axis,), keepdims=True)
    steps = idioms.along(range(shape_of(data)[axis]), axis, rank_of(data), "int64")
    positions = op.max(op.where(op.equal(plain, values), steps, _zero()), axis=(axis,), keepdims=True)
    results = [cast(values, element_type(data)), positions]
    return results if keepdim else [op.squeeze(value, axis=(axis,)) for value in results]
