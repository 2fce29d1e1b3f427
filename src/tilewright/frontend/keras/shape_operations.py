"""Operations of `keras.ops` that move elements: shapes and orders of axes, joining and splitting."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilewright.frontend.idioms import (
    broadcast_to,
    concatenate,
    constant,
    full,
    index_axis,
    product,
    rank_of,
    reshape,
    shape_of,
    transpose,
)
from tilewright.frontend.keras.layer import Operation, tensors
from tilewright.frontend.keras.registry import operation
from tilewright.frontend.keras.reshaping import filled
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


def whole_numbers(value: Any) -> list[int]:
    """A number, a list of them or a constant, as a list of integers."""
    if isinstance(value, Constant):
        value = value.data.tolist()
    return [int(one) for one in (value if isinstance(value, list | tuple) else [value])]


# -------------------------------------------------------------------------------------------------------------- shapes
@operation("Reshape")
def convert_reshape(_item: Operation, x: Any, newshape: Any = None) -> Expr:
    (value,) = tensors(x)
    target = list(newshape) if isinstance(newshape, list | tuple) else [newshape]
    open_positions = [position for position, extent in enumerate(target) if not isinstance(extent, int) or extent == -1]
    if len(open_positions) > 1 and open_positions[0] == 0:  # the batch, and one more
        target[0] = shape_of(value)[0]
        known = product([extent for extent in target[1:] if extent not in (-1, None)])
        target[open_positions[1]] = product(shape_of(value)[1:]) // known
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
        [one % rank for one in whole_numbers(axis)]
        if axis is not None
        else [a for a, n in enumerate(shape_of(value)) if n == 1]
    )
    return op.squeeze(value, axis=tuple(axes)) if axes else value


@operation("ExpandDims")
def convert_expand_dims(_item: Operation, x: Any, axis: Any) -> Expr:
    (value,) = tensors(x)
    axes = whole_numbers(axis)
    rank = rank_of(value) + len(axes)
    for one in sorted(position % rank for position in axes):
        value = op.expand_dims(value, axis=one)
    return value


@operation("Transpose")
def convert_transpose(_item: Operation, x: Any, axes: Any = None) -> Expr:
    (value,) = tensors(x)
    rank = rank_of(value)
    return transpose(value, range(rank)[::-1] if axes is None else [one % rank for one in whole_numbers(axes)])


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
    pairs = sorted((to % rank, of % rank) for of, to in zip(whole_numbers(source), whole_numbers(destination)))
    order = [axis for axis in range(rank) if axis not in [of for _, of in pairs]]
    for to, of in pairs:
        order.insert(to, of)
    return transpose(value, order)


@operation("BroadcastTo")
def convert_broadcast_to(_item: Operation, x: Any, shape: Any) -> Expr:
    (value,) = tensors(x)
    own = shape_of(value)
    target = [own[position - len(shape)] if extent in (None, -1) else extent for position, extent in enumerate(shape)]
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
    for one in axes or (range(rank_of(value)) if axis is None else whole_numbers(axis)):
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
    shifts, axes = whole_numbers(shift), whole_numbers(axis)
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
    counts = whole_numbers(repeats)
    if len(counts) == 1:
        return op.repeat(value, repeats=counts[0], axis=int(axis) % rank_of(value))
    positions = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return op.take(value, Constant(positions), axis=int(axis) % rank_of(value))


@operation("Tile")
def convert_tile(_item: Operation, x: Any, repeats: Any) -> Expr:
    (value,) = tensors(x)
    return op.tile(value, reps=whole_numbers(repeats))


@operation("Pad")
def convert_pad(item: Operation, x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Expr:
    (value,) = tensors(x)
    widths = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    pairs = (
        [tuple(whole_numbers(one)) for one in widths]
        if not isinstance(widths[0], int)
        else [tuple(whole_numbers(widths))]
    )
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
    position = int(default) % rank_of(value)
    cuts = indices_or_sections.data.tolist() if isinstance(indices_or_sections, Constant) else indices_or_sections
    if isinstance(cuts, int):
        extent = shape_of(value)[position]
        sizes = [extent // cuts + (1 if part < extent % cuts else 0) for part in range(cuts)]
        cuts = np.cumsum(sizes)[:-1].tolist()
    edges = [0, *whole_numbers(cuts), shape_of(value)[position]]
    return [
        op.strided_slice(value, begin=(b,), end=(e,), strides=(1,), axes=(position,))
        for b, e in itertools.pairwise(edges)
    ]


@operation("Unstack")
def convert_unstack(_item: Operation, x: Any, num: Any = None, axis: int = 0) -> list[Expr]:
    (value,) = tensors(x)
    position = int(axis) % rank_of(value)
    return [index_axis(value, position, one) for one in range(int(num or shape_of(value)[position]))]


@operation("Meshgrid")
def convert_meshgrid(_item: Operation, *x: Any, indexing: str = "xy") -> list[Expr]:
    parts = [reshape(part, (product(shape_of(part)),)) for part in tensors(*x)]
    order = [1, 0, *range(2, len(parts))] if indexing == "xy" and len(parts) > 1 else list(range(len(parts)))
    shape = [shape_of(parts[position])[0] for position in order]
    made = []
    for position, part in enumerate(parts):
        along = [1] * len(parts)
        along[order.index(position)] = shape_of(part)[0]
        made.append(broadcast_to(reshape(part, along), shape))
    return made
