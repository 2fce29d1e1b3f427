"""Operations of `keras.ops` that choose elements: indexing, slices, gathering, scattering, triangles, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.builders.product import broadcast_shape, diagonal
from tilewright.frontend.idioms import (
    broadcast_to,
    cast,
    dtype_of,
    full,
    index_axis,
    move_axis,
    product,
    rank_of,
    reshape,
    shape_of,
    transpose,
)
from tilewright.frontend.keras.layer import Operation, tensors
from tilewright.frontend.keras.registry import operation
from tilewright.frontend.keras.shape_operations import whole_numbers
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@operation("GetItem")
def convert_get_item(item: Operation, x: Any, key: Any) -> Expr:
    (value,) = tensors(x)
    keys = list(key) if isinstance(key, list | tuple) else [key]
    used = sum(1 for one in keys if one is not None and one is not Ellipsis)
    if Ellipsis in [one for one in keys if not isinstance(one, Expr)]:
        position = next(index for index, one in enumerate(keys) if one is Ellipsis)
        keys[position : position + 1] = [slice(None)] * (rank_of(value) - used)
    axis = 0
    for one in keys:
        if one is None:
            value = op.expand_dims(value, axis=axis)
            axis += 1
        elif isinstance(one, slice):
            value = _sliced(item, value, one, axis)
            axis += 1
        elif isinstance(one, int):
            extent = shape_of(value)[axis]
            position = one
            if position < 0 and not isinstance(extent, int):
                value = index_axis(op.reverse(value, axis=axis), axis, -position - 1)
            else:
                value = index_axis(value, axis, position % extent if isinstance(extent, int) else position)
        elif isinstance(one, Expr) and sum(isinstance(k, Expr) for k in keys) == 1:
            value = op.take(value, one, axis=axis)
            axis += rank_of(one)
        else:
            item.unsupported("an index of this kind")
    return value


def _sliced(item: Operation, value: Expr, key: slice, axis: int) -> Expr:
    extent = shape_of(value)[axis]
    if key == slice(None):
        return value
    if any(isinstance(part, Expr) for part in (key.start, key.stop, key.step)):
        item.unsupported("a slice between numbers that are computed")
    if isinstance(extent, int):
        start, stop, step = key.indices(extent)
        if step < 0:
            positions = np.arange(start, stop, step, dtype=np.int32)
            return op.take(value, Constant(positions), axis=axis)
        return op.strided_slice(value, begin=(start,), end=(max(stop, start),), strides=(step,), axes=(axis,))
    if (key.step or 1) < 0 or (key.start or 0) < 0:
        item.unsupported("a slice from the end of a symbolic dimension; give it with input_shapes")
    stop = extent if key.stop is None else extent + key.stop if key.stop < 0 else key.stop
    return op.strided_slice(value, begin=(key.start or 0,), end=(stop,), strides=(key.step or 1,), axes=(axis,))


@operation("Take")
def convert_take(_item: Operation, x: Any, indices: Any, axis: Any = None) -> Expr:
    (value,) = tensors(x)
    (positions,) = tensors(indices)
    if axis is None:
        value, axis = reshape(value, (product(shape_of(value)),)), 0
    position = int(axis) % rank_of(value)
    return op.take(value, _from_front(positions, shape_of(value)[position]), axis=position)


def _from_front(positions: Expr, extent: Any) -> Expr:
    """Places counted from the end as counted from the front."""
    if not isinstance(extent, int) or dtype_of(positions).startswith("u"):
        return positions
    return op.where(positions < 0, positions + extent, positions)


@operation("TakeAlongAxis")
def convert_take_along_axis(_item: Operation, x: Any, indices: Any, axis: Any = None) -> Expr:
    (value,), (positions,) = tensors(x), tensors(indices)
    if axis is None:
        value, positions, axis = *(reshape(one, (product(shape_of(one)),)) for one in (value, positions)), 0
    position = int(axis) % rank_of(value)
    wide = broadcast_shape(
        *[[1 if one == position else n for one, n in enumerate(shape_of(part))] for part in (value, positions)]
    )
    value = broadcast_to(value, [shape_of(value)[position] if one == position else n for one, n in enumerate(wide)])
    positions = broadcast_to(
        positions, [shape_of(positions)[position] if one == position else n for one, n in enumerate(wide)]
    )
    return op.gather(value, position, _from_front(positions, shape_of(value)[position]))


@operation("Slice")
def convert_slice(item: Operation, inputs: Any, start_indices: Any, shape: Any) -> Expr:
    (value,) = tensors(inputs)
    if isinstance(start_indices, Expr) and not isinstance(start_indices, Constant):
        item.unsupported("a slice that begins where a tensor says")
    starts = whole_numbers(start_indices)
    return op.strided_slice(
        value, begin=starts, end=[b + n for b, n in zip(starts, shape)], strides=(1,) * len(starts),
        axes=tuple(range(len(starts))),
    )  # fmt: skip


@operation("SliceUpdate")
def convert_slice_update(item: Operation, inputs: Any, start_indices: Any, updates: Any) -> Expr:
    value, fresh = tensors(inputs, updates)
    if isinstance(start_indices, Expr) and not isinstance(start_indices, Constant):
        item.unsupported("a slice that begins where a tensor says")
    starts = whole_numbers(start_indices)
    ends = [b + n for b, n in zip(starts, shape_of(fresh))]
    return op.strided_set(value, fresh, begin=starts, end=ends, strides=(1,) * len(starts))


@operation("Scatter", "ScatterUpdate")
def convert_scatter(item: Operation, *args: Any, shape: Any = None, reduction: str | None = None) -> Expr:
    if item.class_name == "Scatter":
        indices, updates = args
        (fresh,) = tensors(updates)
        table, mode = full(0, [int(extent) for extent in shape], dtype_of(fresh)), "add"
    else:
        inputs, indices, updates = args
        table, fresh = tensors(inputs, updates)
        mode = {None: "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}[reduction]
    (positions,) = tensors(indices)
    return op.scatter_nd(table, move_axis(positions, rank_of(positions) - 1, 0), fresh, mode=mode)


@operation("Tril", "Triu")
def convert_triangle(_item: Operation, x: Any, k: int = 0) -> Expr:
    (value,) = tensors(x)
    rows, columns = shape_of(value)[-2:]
    kept = (
        np.tri(rows, columns, k, dtype=bool)
        if _item.class_name == "Tril"
        else ~np.tri(rows, columns, k - 1, dtype=bool)
    )
    return op.where(Constant(kept), value, 0)


@operation("Diagonal", "Trace")
def convert_diagonal(item: Operation, x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Expr:
    (value,) = tensors(x)
    rank = rank_of(value)
    first, second = axis1 % rank, axis2 % rank
    rest = [axis for axis in range(rank) if axis not in (first, second)]
    moved = transpose(value, (*rest, first, second))
    rows, columns = shape_of(moved)[-2:]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    begin = (max(-offset, 0), max(offset, 0))
    part = op.strided_slice(
        moved, begin=begin, end=[b + count for b in begin], strides=(1, 1), axes=(rank - 2, rank - 1)
    )
    made = diagonal(part)
    if item.class_name == "Diagonal":
        return made
    made = cast(made, "int32") if dtype_of(made) == "bool" else made
    return op.sum(made, axis=(rank - 2,))


@operation("Diag", "Diagflat")
def convert_diag(item: Operation, x: Any, k: int = 0) -> Expr:
    (value,) = tensors(x)
    if item.class_name == "Diag" and rank_of(value) == 2:
        return convert_diagonal(Operation("Diagonal", item.name, {}, ""), value, k)
    flat = reshape(value, (product(shape_of(value)),))
    extent = shape_of(flat)[0] + abs(k)
    wide = op.nn.pad(flat, pad_width=[(max(k, 0), max(-k, 0))])
    return op.where(Constant(np.eye(extent, k=k, dtype=bool)), op.expand_dims(wide, axis=0), 0)
