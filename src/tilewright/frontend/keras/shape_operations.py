"""Operations of `keras.ops` that move elements, choose among them, or join tensors; and products of matrices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.idioms import (
    broadcast_to,
    cast,
    concatenate,
    constant,
    dtype_of,
    full,
    index_axis,
    like,
    move_axis,
    product,
    rank_of,
    reshape,
    shape_of,
    transpose,
)
from tilewright.frontend.keras.layer import Operation
from tilewright.frontend.keras.promotion import as_float, tensors
from tilewright.frontend.keras.registry import operation
from tilewright.frontend.keras.reshaping import filled
from tilewright.frontend.product import broadcast_shape, diagonal, einsum, matmul
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


def _ints(value: Any) -> list[int]:
    if isinstance(value, Constant):
        value = value.data.tolist()
    return [int(one) for one in (value if isinstance(value, list | tuple) else [value])]


# -------------------------------------------------------------------------------------------------------------- shapes
@operation("Reshape")
def convert_reshape(_item: Operation, x: Any, newshape: Any = None) -> Expr:
    (value,) = tensors(x)
    target = list(newshape) if isinstance(newshape, list | tuple) else [newshape]
    open_places = [place for place, extent in enumerate(target) if not isinstance(extent, int) or extent == -1]
    if len(open_places) > 1 and open_places[0] == 0:  # the batch, and one more
        target[0] = shape_of(value)[0]
        known = product([extent for extent in target[1:] if extent not in (-1, None)])
        target[open_places[1]] = product(shape_of(value)[1:]) // known
        return reshape(value, target)
    return reshape(value, filled([extent if isinstance(extent, int) else -1 for extent in target], shape_of(value)))


@operation("Ravel")
def convert_ravel(_item: Operation, x: Any) -> Expr:
    (value,) = tensors(x)
    return reshape(value, (product(shape_of(value)),))


@operation("Squeeze")
def convert_squeeze(_item: Operation, x: Any, axis: Any = None) -> Expr:
    (value,) = tensors(x)
    rank = rank_of(value)
    axes = (
        [one % rank for one in _ints(axis)]
        if axis is not None
        else [a for a, n in enumerate(shape_of(value)) if n == 1]
    )
    return op.squeeze(value, axis=tuple(axes)) if axes else value


@operation("ExpandDims")
def convert_expand_dims(_item: Operation, x: Any, axis: Any) -> Expr:
    (value,) = tensors(x)
    axes = _ints(axis)
    rank = rank_of(value) + len(axes)
    for one in sorted(place % rank for place in axes):
        value = op.expand_dims(value, axis=one)
    return value


@operation("Transpose")
def convert_transpose(_item: Operation, x: Any, axes: Any = None) -> Expr:
    (value,) = tensors(x)
    rank = rank_of(value)
    return transpose(value, range(rank)[::-1] if axes is None else [one % rank for one in _ints(axes)])


@operation("Swapaxes")
def convert_swapaxes(_item: Operation, x: Any, axis1: int, axis2: int) -> Expr:
    (value,) = tensors(x)
    order = list(range(rank_of(value)))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(value, order)


@operation("Moveaxis")
def convert_moveaxis(_item: Operation, x: Any, source: Any, destination: Any) -> Expr:
    (value,) = tensors(x)
    rank = rank_of(value)
    pairs = sorted((to % rank, of % rank) for of, to in zip(_ints(source), _ints(destination)))
    order = [axis for axis in range(rank) if axis not in [of for _, of in pairs]]
    for to, of in pairs:
        order.insert(to, of)
    return transpose(value, order)


@operation("BroadcastTo")
def convert_broadcast_to(_item: Operation, x: Any, shape: Any) -> Expr:
    (value,) = tensors(x)
    own = shape_of(value)
    target = [own[place - len(shape)] if extent in (None, -1) else extent for place, extent in enumerate(shape)]
    return broadcast_to(value, target)


@operation("Ndim", "Size")
def convert_size(item: Operation, x: Any) -> Expr:
    (value,) = tensors(x)
    if item.class_name == "Ndim":
        return constant(rank_of(value), "int32")
    return op.sum(full(1, shape_of(value), "int32"))


@operation("Flip", "Fliplr", "Flipud")
def convert_flip(item: Operation, x: Any, axis: Any = None) -> Expr:
    (value,) = tensors(x)
    axes = {"Fliplr": [1], "Flipud": [0]}.get(item.class_name)
    for one in axes or (range(rank_of(value)) if axis is None else _ints(axis)):
        value = op.reverse(value, axis=one % rank_of(value))
    return value


@operation("Rot90")
def convert_rot90(_item: Operation, array: Any, k: int = 1, axes: Any = (0, 1)) -> Expr:
    (value,) = tensors(array)
    first, second = (one % rank_of(value) for one in axes)
    order = list(range(rank_of(value)))
    order[first], order[second] = second, first
    for _ in range(k % 4):
        value = op.reverse(transpose(value, order), axis=first)
    return value


@operation("Roll")
def convert_roll(_item: Operation, x: Any, shift: Any, axis: Any = None) -> Expr:
    (value,) = tensors(x)
    shape = shape_of(value)
    if axis is None:
        return reshape(_rolled(reshape(value, (product(shape),)), int(shift), 0), shape)
    shifts, axes = _ints(shift), _ints(axis)
    for by, one in zip(shifts * len(axes) if len(shifts) == 1 else shifts, axes):
        value = _rolled(value, by, one % len(shape))
    return value


def _rolled(value: Expr, shift: int, axis: int) -> Expr:
    extent = shape_of(value)[axis]
    by = shift % extent
    if not by:
        return value
    ends = [op.strided_slice(value, begin=(b,), end=(e,), strides=(1,), axes=(axis,))
            for b, e in ((extent - by, extent), (0, extent - by))]  # fmt: skip
    return concatenate(ends, axis)


@operation("Repeat")
def convert_repeat(item: Operation, x: Any, repeats: Any, axis: Any = None) -> Expr:
    (value,) = tensors(x)
    if axis is None:
        value, axis = reshape(value, (product(shape_of(value)),)), 0
    counts = _ints(repeats)
    if len(counts) == 1:
        return op.repeat(value, repeats=counts[0], axis=int(axis) % rank_of(value))
    places = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return op.take(value, Constant(places), axis=int(axis) % rank_of(value))


@operation("Tile")
def convert_tile(_item: Operation, x: Any, repeats: Any) -> Expr:
    (value,) = tensors(x)
    return op.tile(value, reps=_ints(repeats))


@operation("Pad")
def convert_pad(item: Operation, x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Expr:
    (value,) = tensors(x)
    widths = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    pairs = [tuple(_ints(one)) for one in widths] if not isinstance(widths[0], int) else [tuple(_ints(widths))]
    pairs = [one * 2 if len(one) == 1 else one for one in pairs]
    pairs = pairs * rank_of(value) if len(pairs) == 1 else pairs
    if mode == "symmetric":
        return op.nn.mirror_pad(value, mode="SYMMETRIC", pad_width=pairs)
    known = {"constant": "constant", "reflect": "reflect", "edge": "edge"}
    if mode not in known:
        item.unsupported(f"padding by mode {mode!r}")
    fill = constant_values.data.item() if isinstance(constant_values, Constant) else constant_values or 0
    return op.nn.pad(value, pad_width=pairs, pad_value=fill, pad_mode=known[mode])


# ------------------------------------------------------------------------------------------------------------- joining
@operation("Concatenate", "Append")
def convert_concatenate(item: Operation, *values: Any, axis: Any = 0) -> Expr:
    parts = tensors(*(values[0] if item.class_name == "Concatenate" else values))
    if axis is None:
        parts, axis = [reshape(part, (product(shape_of(part)),)) for part in parts], 0
    return concatenate(parts, int(axis) % rank_of(parts[0]))


@operation("Stack")
def convert_stack(_item: Operation, x: Any, axis: int = 0) -> Expr:
    return op.stack(tensors(*x), axis=int(axis))


@operation("Hstack", "Vstack", "Dstack")
def convert_stacks(item: Operation, xs: Any) -> Expr:
    parts = tensors(*xs)
    least = {"Hstack": 1, "Vstack": 2, "Dstack": 3}[item.class_name]
    parts = [_at_least(part, least) for part in parts]
    axis = {"Hstack": 1 if rank_of(parts[0]) > 1 else 0, "Vstack": 0, "Dstack": 2}[item.class_name]
    return concatenate(parts, axis)


def _at_least(value: Expr, rank: int) -> Expr:
    shape = shape_of(value)
    if rank == 3 and len(shape) < 3:
        return reshape(value, ((1, *shape, 1) if len(shape) == 1 else (*shape, 1) if shape else (1, 1, 1)))
    return reshape(value, (*[1] * (rank - len(shape)), *shape)) if len(shape) < rank else value


@operation("Split", "ArraySplit", "Hsplit", "Vsplit", "Dsplit")
def convert_split(item: Operation, x: Any, indices_or_sections: Any, axis: int = 0) -> list[Expr]:
    (value,) = tensors(x)
    default = {"Hsplit": 1 if rank_of(value) > 1 else 0, "Vsplit": 0, "Dsplit": 2}.get(item.class_name, axis)
    place = int(default) % rank_of(value)
    cuts = indices_or_sections.data.tolist() if isinstance(indices_or_sections, Constant) else indices_or_sections
    if isinstance(cuts, int):
        extent = shape_of(value)[place]
        sizes = [extent // cuts + (1 if part < extent % cuts else 0) for part in range(cuts)]
        cuts = np.cumsum(sizes)[:-1].tolist()
    edges = [0, *_ints(cuts), shape_of(value)[place]]
    return [
        op.strided_slice(value, begin=(b,), end=(e,), strides=(1,), axes=(place,)) for b, e in itertools.pairwise(edges)
    ]


@operation("Unstack")
def convert_unstack(_item: Operation, x: Any, num: Any = None, axis: int = 0) -> list[Expr]:
    (value,) = tensors(x)
    place = int(axis) % rank_of(value)
    return [index_axis(value, place, one) for one in range(int(num or shape_of(value)[place]))]


@operation("Meshgrid")
def convert_meshgrid(_item: Operation, *x: Any, indexing: str = "xy") -> list[Expr]:
    parts = [reshape(part, (product(shape_of(part)),)) for part in tensors(*x)]
    order = [1, 0, *range(2, len(parts))] if indexing == "xy" and len(parts) > 1 else list(range(len(parts)))
    shape = [shape_of(parts[place])[0] for place in order]
    made = []
    for place, part in enumerate(parts):
        along = [1] * len(parts)
        along[order.index(place)] = shape_of(part)[0]
        made.append(broadcast_to(reshape(part, along), shape))
    return made


# ------------------------------------------------------------------------------------------------------------ choosing
@operation("GetItem")
def convert_get_item(item: Operation, x: Any, key: Any) -> Expr:
    (value,) = tensors(x)
    keys = list(key) if isinstance(key, list | tuple) else [key]
    used = sum(1 for one in keys if one is not None and one is not Ellipsis)
    if Ellipsis in [one for one in keys if not isinstance(one, Expr)]:
        place = next(index for index, one in enumerate(keys) if one is Ellipsis)
        keys[place : place + 1] = [slice(None)] * (rank_of(value) - used)
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
            place = one
            if place < 0 and not isinstance(extent, int):
                value = index_axis(op.reverse(value, axis=axis), axis, -place - 1)
            else:
                value = index_axis(value, axis, place % extent if isinstance(extent, int) else place)
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
            places = np.arange(start, stop, step, dtype=np.int32)
            return op.take(value, Constant(places), axis=axis)
        return op.strided_slice(value, begin=(start,), end=(max(stop, start),), strides=(step,), axes=(axis,))
    if (key.step or 1) < 0 or (key.start or 0) < 0:
        item.unsupported("a slice from the end of an axis of open extent; give it with input_shapes")
    stop = extent if key.stop is None else extent + key.stop if key.stop < 0 else key.stop
    return op.strided_slice(value, begin=(key.start or 0,), end=(stop,), strides=(key.step or 1,), axes=(axis,))


@operation("Take")
def convert_take(_item: Operation, x: Any, indices: Any, axis: Any = None) -> Expr:
    (value,) = tensors(x)
    (places,) = tensors(indices)
    if axis is None:
        value, axis = reshape(value, (product(shape_of(value)),)), 0
    place = int(axis) % rank_of(value)
    return op.take(value, _from_front(places, shape_of(value)[place]), axis=place)


def _from_front(places: Expr, extent: Any) -> Expr:
    """Places counted from the end as counted from the front."""
    if not isinstance(extent, int) or dtype_of(places).startswith("u"):
        return places
    return op.where(op.less(places, like(0, places)), op.add(places, like(extent, places)), places)


@operation("TakeAlongAxis")
def convert_take_along_axis(_item: Operation, x: Any, indices: Any, axis: Any = None) -> Expr:
    (value,), (places,) = tensors(x), tensors(indices)
    if axis is None:
        value, places, axis = *(reshape(one, (product(shape_of(one)),)) for one in (value, places)), 0
    place = int(axis) % rank_of(value)
    wide = broadcast_shape(
        *[[1 if one == place else n for one, n in enumerate(shape_of(part))] for part in (value, places)]
    )
    value = broadcast_to(value, [shape_of(value)[place] if one == place else n for one, n in enumerate(wide)])
    places = broadcast_to(places, [shape_of(places)[place] if one == place else n for one, n in enumerate(wide)])
    return op.gather(value, place, _from_front(places, shape_of(value)[place]))


@operation("Slice")
def convert_slice(item: Operation, inputs: Any, start_indices: Any, shape: Any) -> Expr:
    (value,) = tensors(inputs)
    if isinstance(start_indices, Expr) and not isinstance(start_indices, Constant):
        item.unsupported("a slice that begins where a tensor says")
    starts = _ints(start_indices)
    return op.strided_slice(
        value, begin=starts, end=[b + n for b, n in zip(starts, shape)], strides=(1,) * len(starts),
        axes=tuple(range(len(starts))),
    )  # fmt: skip


@operation("SliceUpdate")
def convert_slice_update(item: Operation, inputs: Any, start_indices: Any, updates: Any) -> Expr:
    value, fresh = tensors(inputs, updates)
    if isinstance(start_indices, Expr) and not isinstance(start_indices, Constant):
        item.unsupported("a slice that begins where a tensor says")
    starts = _ints(start_indices)
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
    (places,) = tensors(indices)
    return op.scatter_nd(table, move_axis(places, rank_of(places) - 1, 0), fresh, mode=mode)


# ------------------------------------------------------------------------------------------------------------ diagonals
@operation("Tril", "Triu")
def convert_triangle(_item: Operation, x: Any, k: int = 0) -> Expr:
    (value,) = tensors(x)
    rows, columns = shape_of(value)[-2:]
    kept = (
        np.tri(rows, columns, k, dtype=bool)
        if _item.class_name == "Tril"
        else ~np.tri(rows, columns, k - 1, dtype=bool)
    )
    return op.where(Constant(kept), value, like(0, value))


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
    return op.where(Constant(np.eye(extent, k=k, dtype=bool)), op.expand_dims(wide, axis=0), like(0, value))


# ------------------------------------------------------------------------------------------------------------ products
@operation("Matmul")
def convert_matmul(_item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    if dtype_of(left) in ("int8", "uint8"):
        left, right = cast(left, "int32"), cast(right, "int32")
    return matmul(left, right)


@operation("Einsum")
def convert_einsum(_item: Operation, *operands: Any, subscripts: str) -> Expr:
    return einsum(subscripts, tensors(*operands))


@operation("Dot", "Vdot", "Inner")
def convert_dot(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    if item.class_name == "Vdot":
        return op.sum(op.multiply(*(reshape(one, (product(shape_of(one)),)) for one in (left, right))))
    a, b = rank_of(left), rank_of(right)
    if not a or not b:
        return op.multiply(left, right)
    letters = "abcdefghijkl"
    first, second = letters[: a - 1] + "z", letters[a - 1 : a + b - 2]
    other = second[:-1] + "z" + second[-1:] if item.class_name == "Dot" and b > 1 else second + "z"
    return einsum(f"{first},{other}->{first[:-1]}{second}", [left, right])


@operation("Tensordot")
def convert_tensordot(_item: Operation, x1: Any, x2: Any, axes: Any = 2) -> Expr:
    left, right = tensors(x1, x2)
    a, b = rank_of(left), rank_of(right)
    if isinstance(axes, int):
        first, second = list(range(a - axes, a)), list(range(axes))
    else:
        first, second = ([one % rank for one in _ints(part)] for part, rank in zip(axes, (a, b)))
    rows = [axis for axis in range(a) if axis not in first]
    columns = [axis for axis in range(b) if axis not in second]
    inner = product([shape_of(left)[axis] for axis in first])
    x = reshape(transpose(left, (*rows, *first)), (product([shape_of(left)[axis] for axis in rows]), inner))
    y = reshape(transpose(right, (*second, *columns)), (inner, product([shape_of(right)[axis] for axis in columns])))
    return reshape(matmul(x, y), [shape_of(left)[axis] for axis in rows] + [shape_of(right)[axis] for axis in columns])


@operation("Outer", "Kron")
def convert_outer(item: Operation, x1: Any, x2: Any) -> Expr:
    left, right = tensors(x1, x2)
    if item.class_name == "Outer":
        left, right = (reshape(one, (product(shape_of(one)),)) for one in (left, right))
        return op.multiply(op.expand_dims(left, axis=1), op.expand_dims(right, axis=0))
    rank = max(rank_of(left), rank_of(right))
    left, right = (reshape(one, (*[1] * (rank - rank_of(one)), *shape_of(one))) for one in (left, right))
    a, b = shape_of(left), shape_of(right)
    wide = op.multiply(reshape(left, [n for x in a for n in (x, 1)]), reshape(right, [n for x in b for n in (1, x)]))
    return reshape(wide, [x * y for x, y in zip(a, b)])


@operation("Cross")
def convert_cross(
    item: Operation, x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Expr:
    left, right = tensors(x1, x2)
    if axis is not None:
        axisa = axisb = axisc = int(axis)
    left, right = (
        move_axis(left, axisa % rank_of(left), rank_of(left) - 1),
        move_axis(right, axisb % rank_of(right), rank_of(right) - 1),
    )
    if shape_of(left)[-1] != 3 or shape_of(right)[-1] != 3:
        item.unsupported("the cross product of vectors of other than three elements")
    a, b = ([index_axis(part, rank_of(part) - 1, one) for one in range(3)] for part in (left, right))
    parts = [op.subtract(op.multiply(a[i], b[j]), op.multiply(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    made = op.stack(parts, axis=rank_of(parts[0]))
    return move_axis(made, rank_of(made) - 1, axisc % rank_of(made))


@operation("Diff")
def convert_diff(_item: Operation, a: Any, n: int = 1, axis: int = -1) -> Expr:
    (value,) = tensors(a)
    place = int(axis) % rank_of(value)
    for _ in range(n):
        extent = shape_of(value)[place]
        late, early = (
            op.strided_slice(value, begin=(b,), end=(e,), strides=(1,), axes=(place,))
            for b, e in ((1, extent), (0, extent - 1))
        )
        value = op.not_equal(late, early) if dtype_of(value) == "bool" else op.subtract(late, early)
    return value


@operation("Trapezoid")
def convert_trapezoid(_item: Operation, y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Expr:
    value = as_float(y)
    place = int(axis) % rank_of(value)
    extent = shape_of(value)[place]
    late, early = (
        op.strided_slice(value, begin=(b,), end=(e,), strides=(1,), axes=(place,))
        for b, e in ((1, extent), (0, extent - 1))
    )
    step = like(float(dx), value) if x is None else convert_diff(_item, cast(tensors(x)[0], dtype_of(value)), 1, -1)
    if rank_of(step) == 1:
        step = reshape(step, [extent - 1 if one == place else 1 for one in range(rank_of(value))])
    return op.sum(op.multiply(op.multiply(op.add(late, early), like(0.5, value)), step), axis=(place,))


@operation("Vander")
def convert_vander(_item: Operation, x: Any, N: Any = None, increasing: bool = False) -> Expr:
    (value,) = tensors(x)
    count = int(N) if N is not None else shape_of(value)[0]
    powers = np.arange(count) if increasing else np.arange(count)[::-1]
    return op.power(op.expand_dims(value, axis=1), constant(powers.copy(), dtype_of(value)))


@operation("UnravelIndex")
def convert_unravel_index(_item: Operation, indices: Any, shape: Sequence[int]) -> list[Expr]:
    (value,) = tensors(indices)
    value = op.where(op.less(value, like(0, value)), op.add(value, like(math.prod(shape), value)), value)
    parts = []
    for extent in list(shape)[::-1]:
        parts.append(op.floor_mod(value, like(extent, value)))
        value = op.floor_divide(value, like(extent, value))
    return parts[::-1]


@operation("Linspace", "Logspace", "Geomspace")
def convert_linspace(
    item: Operation, start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10,
    retstep: bool = False, dtype: Any = None, axis: int = 0,
) -> Any:  # fmt: skip
    first, last = tensors(start, stop, at_least_float=True)
    if item.class_name == "Geomspace":
        first, last = op.log(first), op.log(last)
    parts = max(num - 1, 1) if endpoint else max(num, 1)
    shape = broadcast_shape(shape_of(first), shape_of(last))
    first, last = broadcast_to(first, shape), broadcast_to(last, shape)
    step = op.divide(op.subtract(last, first), like(parts, first))
    ramp = constant(np.arange(num).reshape(num, *[1] * len(shape)), dtype_of(first))
    made = op.add(op.expand_dims(first, axis=0), op.multiply(ramp, op.expand_dims(step, axis=0)))
    if item.class_name != "Linspace":
        made = op.exp(made) if item.class_name == "Geomspace" else op.power(like(float(base), made), made)
    made = move_axis(made, 0, int(axis) % rank_of(made))
    made = cast(made, str(dtype)) if dtype else made
    return [made, step] if retstep else made


@operation("Arange")
def convert_arange(item: Operation, start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Expr:
    values = [one.data.item() if isinstance(one, Constant) else one for one in (start, stop, step)]
    if any(isinstance(one, Expr) for one in values):
        item.unsupported("a range between numbers that are computed")
    begin, end = (0, values[0]) if values[1] is None else values[:2]
    made = np.arange(begin, end, values[2] or 1)
    return constant(made, str(dtype) if dtype else "int32" if made.dtype.kind in "iu" else "float32")


@operation("Full")
def convert_full(_item: Operation, fill_value: Any, shape: Any = None, dtype: Any = None) -> Expr:
    (value,) = tensors(fill_value)
    value = cast(value, str(dtype)) if dtype else value
    return broadcast_to(value, [int(extent) for extent in shape])


@operation("Gcd", "Lcm")
def convert_gcd(item: Operation, x1: Any, x2: Any) -> Expr:
    """Euclid's algorithm, as often as it takes for the largest numbers of the type."""
    left, right = tensors(x1, x2)
    a, b = op.abs(left), op.abs(right)
    zero, one = like(0, left), like(1, left)
    rounds = {"int8": 12, "uint8": 13, "int16": 24, "uint16": 25, "int32": 47, "uint32": 48}.get(dtype_of(left), 93)
    for _ in range(rounds):
        done = op.equal(b, zero)
        a, b = op.where(done, a, b), op.where(done, zero, op.floor_mod(a, op.where(done, one, b)))
    if item.class_name == "Gcd":
        return a
    size = op.abs(op.multiply(left, right))
    return op.where(op.equal(a, zero), zero, op.floor_divide(size, op.where(op.equal(a, zero), one, a)))


@operation("IsIn")
def convert_is_in(_item: Operation, x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Expr:
    left, right = tensors(x1, x2)
    flat = reshape(right, (product(shape_of(right)),))
    found = op.any(op.equal(op.expand_dims(left, axis=rank_of(left)), flat), axis=(rank_of(left),))
    return op.logical_not(found) if invert else found


@operation("ExtractSequences")
def convert_extract_sequences(_item: Operation, x: Any, sequence_length: int, sequence_stride: int) -> Expr:
    (value,) = tensors(x)
    count = (shape_of(value)[-1] - sequence_length) // sequence_stride + 1
    places = np.arange(count)[:, None] * sequence_stride + np.arange(sequence_length)
    return op.take(value, Constant(places.astype(np.int32)), axis=rank_of(value) - 1)


@operation("CDist")
def convert_cdist(_item: Operation, x: Any, y: Any) -> Expr:
    left, right = tensors(x, y, at_least_float=True)
    apart = op.subtract(op.expand_dims(left, axis=rank_of(left) - 1), op.expand_dims(right, axis=rank_of(right) - 2))
    return op.sqrt(op.sum(op.multiply(apart, apart), axis=(-1,)))
