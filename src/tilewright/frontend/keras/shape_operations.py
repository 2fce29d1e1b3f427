"""Operations of `keras.ops` that move elements: shapes and orders of axes, joining and splitting."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilewright.frontend.idioms import (
    as_vector,
    broadcast_to,
    concatenate,
    constant,
    full,
    index_axis,
    on_axis,
    product,
    rank_of,
    reshape,
    shape_of,
    slice_axis,
    swap_axes,
    transpose,
)
from tilewright.frontend.keras.layer import Axes, Axis, Operation, axes_of, tensors, whole_numbers
from tilewright.frontend.keras.registry import operation
from tilewright.frontend.keras.reshaping import filled
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

# -------------------------------------------------------------------------------------------------------------- shapes
operation("Ravel")(as_vector)


@operation("Squeeze")
def convert_squeeze(x: Expr, axis: Any = None) -> Expr:
    axes = [a for a, n in enumerate(shape_of(x)) if n == 1] if axis is None else axes_of(x, axis)
    return op.squeeze(x, axis=tuple(axes)) if axes else x


@operation("Transpose")
def convert_transpose(x: Expr, axes: Any = None) -> Expr:
    return transpose(x, range(rank_of(x))[::-1] if axes is None else axes_of(x, axes))


@operation("Swapaxes")
def convert_swapaxes(x: Expr, axis1: int, axis2: int) -> Expr:
    return swap_axes(x, axis1, axis2)


@operation("Tile")
def convert_tile(x: Expr, repeats: Any) -> Expr:
    return op.tile(x, reps=whole_numbers(repeats))


@operation("Reshape")
def convert_reshape(x: Expr, newshape: Any = None) -> Expr:
    target = list(newshape) if isinstance(newshape, list | tuple) else [newshape]
    open_positions = [position for position, extent in enumerate(target) if not isinstance(extent, int) or extent == -1]
    if len(open_positions) > 1 and open_positions[0] == 0:  # the batch, and one more
        target[0] = shape_of(x)[0]
        known = product([extent for extent in target[1:] if extent not in (-1, None)])
        target[open_positions[1]] = product(shape_of(x)[1:]) // known
        return reshape(x, target)
    return reshape(x, filled([extent if isinstance(extent, int) else -1 for extent in target], shape_of(x)))


@operation("ExpandDims")
def convert_expand_dims(x: Expr, axis: Any) -> Expr:
    axes = whole_numbers(axis)
    rank = rank_of(x) + len(axes)
    for one in sorted(position % rank for position in axes):
        x = op.expand_dims(x, axis=one)
    return x


@operation("Moveaxis")
def convert_moveaxis(x: Expr, source: Axes, destination: Axes) -> Expr:
    order = [axis for axis in range(rank_of(x)) if axis not in source]
    for to, of in sorted(zip(destination, source)):
        order.insert(to, of)
    return transpose(x, order)


@operation("BroadcastTo")
def convert_broadcast_to(x: Expr, shape: Any) -> Expr:
    own = shape_of(x)
    target = [own[position - len(shape)] if extent in (None, -1) else extent for position, extent in enumerate(shape)]
    return broadcast_to(x, target)


@operation("Ndim")
def convert_ndim(x: Expr) -> Expr:
    return constant(rank_of(x), "int32")


@operation("Size")
def convert_size(x: Expr) -> Expr:
    return op.sum(full(1, shape_of(x), "int32"))


@operation("Flip", "Fliplr", "Flipud")
def convert_flip(item: Operation, x: Expr, axis: Any = None) -> Expr:
    for one in axes_of(x, {"Fliplr": 1, "Flipud": 0}.get(item.class_name, axis)):
        x = op.reverse(x, axis=one)
    return x


@operation("Rot90")
def convert_rot90(array: Expr, k: int = 1, axes: Axes = (0, 1)) -> Expr:
    for _ in range(k % 4):
        array = op.reverse(swap_axes(array, *axes), axis=axes[0])
    return array


@operation("Roll")
def convert_roll(x: Expr, shift: Any, axis: Any = None) -> Expr:
    if axis is None:
        return reshape(_rolled(as_vector(x), int(shift), 0), shape_of(x))
    shifts, axes = whole_numbers(shift), axes_of(x, axis)
    for by, one in zip(shifts * len(axes) if len(shifts) == 1 else shifts, axes):
        x = _rolled(x, by, one)
    return x


def _rolled(value: Expr, shift: int, axis: int) -> Expr:
    extent = shape_of(value)[axis]
    by = shift % extent
    if not by:
        return value
    return concatenate([slice_axis(value, axis, extent - by, extent), slice_axis(value, axis, 0, extent - by)], axis)


@operation("Repeat")
def convert_repeat(x: Expr, repeats: Any, axis: Any = None) -> Expr:
    if axis is None:
        x, axis = as_vector(x), 0
    counts = whole_numbers(repeats)
    if len(counts) == 1:
        return op.repeat(x, repeats=counts[0], axis=int(axis) % rank_of(x))
    positions = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return op.take(x, Constant(positions), axis=int(axis) % rank_of(x))


@operation("Pad")
def convert_pad(item: Operation, x: Expr, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Expr:
    widths = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    given = [whole_numbers(one) for one in ([widths] if isinstance(widths[0], int) else widths)]
    pairs = [tuple(one * 2 if len(one) == 1 else one) for one in given]
    pairs = pairs * rank_of(x) if len(pairs) == 1 else pairs
    if mode == "symmetric":
        return op.nn.mirror_pad(x, mode="SYMMETRIC", pad_width=pairs)
    if mode not in ("constant", "reflect", "edge"):
        item.unsupported(f"padding by mode {mode!r}")
    fill = constant_values.data.item() if isinstance(constant_values, Constant) else constant_values or 0
    return op.nn.pad(x, pad_width=pairs, pad_value=fill, pad_mode=mode)


# ------------------------------------------------------------------------------------------------------------- joining
@operation("Concatenate", "Append")
def convert_concatenate(item: Operation, *values: Any, axis: Any = 0) -> Expr:
    parts = tensors(*(values[0] if item.class_name == "Concatenate" else values))
    if axis is None:
        parts, axis = [as_vector(part) for part in parts], 0
    return concatenate(parts, int(axis) % rank_of(parts[0]))


@operation("Stack")
def convert_stack(x: Any, axis: int = 0) -> Expr:
    return op.stack(tensors(*x), axis=int(axis))


@operation("Hstack", "Vstack", "Dstack")
def convert_stacks(item: Operation, xs: Any) -> Expr:
    least, axis = {"Hstack": (1, 1), "Vstack": (2, 0), "Dstack": (3, 2)}[item.class_name]
    parts = tensors(*xs)
    for _ in range(least):
        parts = [_with_axis(part, least) for part in parts]
    return concatenate(parts, min(axis, rank_of(parts[0]) - 1))


def _with_axis(value: Expr, least: int) -> Expr:
    """One more axis where there are less than `least`: the third behind the others, the first two before."""
    rank = rank_of(value)
    return value if rank >= least else op.expand_dims(value, axis=rank if rank == 2 else 0)


@operation("Split", "ArraySplit", "Hsplit", "Vsplit", "Dsplit")
def convert_split(item: Operation, x: Expr, indices_or_sections: Any, axis: int = 0) -> list[Expr]:
    default = {"Hsplit": min(1, rank_of(x) - 1), "Vsplit": 0, "Dsplit": 2}.get(item.class_name, axis)
    position = int(default) % rank_of(x)
    extent = shape_of(x)[position]
    cuts = indices_or_sections.data.tolist() if isinstance(indices_or_sections, Constant) else indices_or_sections
    if isinstance(cuts, int):
        cuts = np.cumsum([extent // cuts + (1 if part < extent % cuts else 0) for part in range(cuts)])[:-1].tolist()
    return [slice_axis(x, position, b, e) for b, e in itertools.pairwise([0, *whole_numbers(cuts), extent])]


@operation("Unstack")
def convert_unstack(x: Expr, num: Any = None, axis: Axis = 0) -> list[Expr]:
    return [index_axis(x, axis, one) for one in range(int(num or shape_of(x)[axis]))]


@operation("Meshgrid")
def convert_meshgrid(*x: Any, indexing: str = "xy") -> list[Expr]:
    parts = [as_vector(part) for part in tensors(*x)]
    order = [1, 0, *range(2, len(parts))] if indexing == "xy" and len(parts) > 1 else list(range(len(parts)))
    shape = [shape_of(parts[position])[0] for position in order]
    return [broadcast_to(on_axis(part, order.index(n), len(parts)), shape) for n, part in enumerate(parts)]
