"""Operations of `keras.ops` that choose elements: indexing, slices, gathering, scattering, triangles, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.builders.product import broadcast_shape, diagonal
from tilewright.frontend.idioms import (
    as_vector,
    broadcast_to,
    cast,
    dtype_of,
    full,
    index_axis,
    move_axis,
    rank_of,
    shape_of,
    slice_axis,
    transpose,
)
from tilewright.frontend.keras.layer import Axis, Operation, Tensor, tensors, whole_numbers
from tilewright.frontend.keras.registry import operation
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@operation("GetItem")
def convert_get_item(item: Operation, x: Expr, key: Any) -> Expr:
    keys = list(key) if isinstance(key, list | tuple) else [key]
    used = sum(1 for one in keys if one is not None and one is not Ellipsis)
    if Ellipsis in [one for one in keys if not isinstance(one, Expr)]:
        position = next(index for index, one in enumerate(keys) if one is Ellipsis)
        keys[position : position + 1] = [slice(None)] * (rank_of(x) - used)
    axis = 0
    for one in keys:
        if one is None:
            x = op.expand_dims(x, axis=axis)
            axis += 1
        elif isinstance(one, slice):
            x = _sliced(item, x, one, axis)
            axis += 1
        elif isinstance(one, int):
            extent = shape_of(x)[axis]
            position = one
            if position < 0 and not isinstance(extent, int):
                x = index_axis(op.reverse(x, axis=axis), axis, -position - 1)
            else:
                x = index_axis(x, axis, position % extent if isinstance(extent, int) else position)
        elif isinstance(one, Expr) and sum(isinstance(k, Expr) for k in keys) == 1:
            x = op.take(x, one, axis=axis)
            axis += rank_of(one)
        else:
            item.unsupported("an index of this kind")
    return x


def _sliced(item: Operation, value: Expr, key: slice, axis: int) -> Expr:
    extent = shape_of(value)[axis]
    if key == slice(None):
        return value
    if any(isinstance(part, Expr) for part in (key.start, key.stop, key.step)):
        item.unsupported("a slice between numbers that are computed")
    if isinstance(extent, int):
        start, stop, step = key.indices(extent)
        if step < 0:
            return op.take(value, Constant(np.arange(start, stop, step, dtype=np.int32)), axis=axis)
        return op.strided_slice(value, begin=(start,), end=(max(stop, start),), strides=(step,), axes=(axis,))
    if (key.step or 1) < 0 or (key.start or 0) < 0:
        item.unsupported("a slice from the end of a symbolic dimension; give it with input_shapes")
    stop = extent if key.stop is None else extent + key.stop if key.stop < 0 else key.stop
    return op.strided_slice(value, begin=(key.start or 0,), end=(stop,), strides=(key.step or 1,), axes=(axis,))


@operation("Take")
def convert_take(x: Expr, indices: Expr, axis: Any = None) -> Expr:
    if axis is None:
        x, axis = as_vector(x), 0
    position = int(axis) % rank_of(x)
    return op.take(x, _from_front(indices, shape_of(x)[position]), axis=position)


def _from_front(positions: Expr, extent: Any) -> Expr:
    """Places counted from the end as counted from the front."""
    if not isinstance(extent, int) or dtype_of(positions).startswith("u"):
        return positions
    return op.where(positions < 0, positions + extent, positions)


@operation("TakeAlongAxis")
def convert_take_along_axis(x: Expr, indices: Expr, axis: Any = None) -> Expr:
    if axis is None:
        x, indices, axis = *(as_vector(one) for one in (x, indices)), 0
    position = int(axis) % rank_of(x)
    wide = broadcast_shape(
        *[[1 if one == position else n for one, n in enumerate(shape_of(part))] for part in (x, indices)]
    )
    x = broadcast_to(x, [shape_of(x)[position] if one == position else n for one, n in enumerate(wide)])
    indices = broadcast_to(
        indices, [shape_of(indices)[position] if one == position else n for one, n in enumerate(wide)]
    )
    return op.gather(x, position, _from_front(indices, shape_of(x)[position]))


@operation("Slice")
def convert_slice(item: Operation, inputs: Expr, start_indices: Any, shape: Any) -> Expr:
    if isinstance(start_indices, Expr) and not isinstance(start_indices, Constant):
        item.unsupported("a slice that begins where a tensor says")
    starts = whole_numbers(start_indices)
    return op.strided_slice(
        inputs, begin=starts, end=[b + n for b, n in zip(starts, shape)], strides=(1,) * len(starts),
        axes=tuple(range(len(starts))),
    )  # fmt: skip


@operation("SliceUpdate")
def convert_slice_update(item: Operation, inputs: Tensor, start_indices: Any, updates: Tensor) -> Expr:
    if isinstance(start_indices, Expr) and not isinstance(start_indices, Constant):
        item.unsupported("a slice that begins where a tensor says")
    starts = whole_numbers(start_indices)
    ends = [b + n for b, n in zip(starts, shape_of(updates))]
    return op.strided_set(inputs, updates, begin=starts, end=ends, strides=(1,) * len(starts))


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
def convert_triangle(item: Operation, x: Expr, k: int = 0) -> Expr:
    rows, columns = shape_of(x)[-2:]
    if item.class_name == "Tril":
        return op.where(Constant(np.tri(rows, columns, k, dtype=bool)), x, 0)
    return op.where(Constant(np.tri(rows, columns, k - 1, dtype=bool)), 0, x)


@operation("Diagonal")
def convert_diagonal(x: Expr, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> Expr:
    rest = [axis for axis in range(rank_of(x)) if axis not in (axis1, axis2)]
    moved = transpose(x, (*rest, axis1, axis2))
    rows, columns = shape_of(moved)[-2:]
    count = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    down, right = max(-offset, 0), max(offset, 0)
    return diagonal(slice_axis(slice_axis(moved, len(rest), down, down + count), len(rest) + 1, right, right + count))


@operation("Trace")
def convert_trace(x: Expr, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> Expr:
    made = convert_diagonal(x, offset, axis1, axis2)
    return op.sum(cast(made, "int32") if dtype_of(made) == "bool" else made, axis=(-1,))


@operation("Diag", "Diagflat")
def convert_diag(item: Operation, x: Expr, k: int = 0) -> Expr:
    if item.class_name == "Diag" and rank_of(x) == 2:
        return convert_diagonal(x, k)
    flat = as_vector(x)
    extent = shape_of(flat)[0] + abs(k)
    wide = op.nn.pad(flat, pad_width=[(max(k, 0), max(-k, 0))])
    return op.where(Constant(np.eye(extent, k=k, dtype=bool)), op.expand_dims(wide, axis=0), 0)
