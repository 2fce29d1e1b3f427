"""Operations of `keras.ops` that move and choose elements: axes, joining, splitting, indices."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import elements
from tilewright.frontend.builders.product import broadcast_shape, diagonal
from tilewright.frontend.keras.layer import Axes, Axis, Operation, Tensor, axes_of, tensors, whole_numbers
from tilewright.frontend.keras.registry import operation, operations
from tilewright.frontend.keras.reshaping import filled
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

# -------------------------------------------------------------------------------------------------------------- shapes
operations("Expr Any", {
    "Ravel": idioms.as_vector, "Swapaxes": lambda x, axis1, axis2: idioms.swap_axes(x, axis1, axis2),
    "Transpose": lambda x, axes=None: idioms.transpose(x, axes_of(x, axes)[:: -1 if axes is None else 1]),
    "Tile": lambda x, repeats: op.tile(x, reps=whole_numbers(repeats)),
    "Ndim": lambda x: idioms.constant(idioms.rank_of(x), "int32"),
    "Size": lambda x: op.sum(idioms.full(1, idioms.shape_of(x), "int32")),
    "Squeeze": lambda x, axis=None: idioms.without_axes(x, () if axis is None else axes_of(x, axis)),
    "Flip": lambda x, axis=None: elements.reversed_axes(x, axes_of(x, axis)),
    "Fliplr": lambda x: elements.reversed_axes(x, [1]), "Flipud": lambda x: elements.reversed_axes(x, [0]),
    "Tril": lambda x, k=0: elements.diagonals(x, None, k), "Triu": lambda x, k=0: elements.diagonals(x, k, None),
})  # fmt: skip
operations("Any", {"Stack": lambda x, axis=0: op.stack(tensors(*x), axis=int(axis))})


@operation("Reshape")
def convert_reshape(x: Expr, newshape: Any = None) -> Expr:
    target = list(newshape) if isinstance(newshape, list | tuple) else [newshape]
    open_positions = [position for position, extent in enumerate(target) if not isinstance(extent, int) or extent == -1]
    if len(open_positions) > 1 and open_positions[0] == 0:  # the batch, and one more
        target[0] = idioms.shape_of(x)[0]
        known = idioms.product([extent for extent in target[1:] if extent not in (-1, None)])
        target[open_positions[1]] = idioms.product(idioms.shape_of(x)[1:]) // known
        return idioms.reshape(x, target)
    return idioms.reshape(
        x, filled([extent if isinstance(extent, int) else -1 for extent in target], idioms.shape_of(x))
    )


@operation("ExpandDims")
def convert_expand_dims(x: Expr, axis: Any) -> Expr:
    axes = whole_numbers(axis)
    return idioms.with_axes(x, [position % (idioms.rank_of(x) + len(axes)) for position in axes])


@operation("Moveaxis")
def convert_moveaxis(x: Expr, source: Axes, destination: Axes) -> Expr:
    order = [axis for axis in range(idioms.rank_of(x)) if axis not in source]
    for to, of in sorted(zip(destination, source)):
        order.insert(to, of)
    return idioms.transpose(x, order)


@operation("BroadcastTo")
def convert_broadcast_to(x: Expr, shape: Any) -> Expr:
    own = idioms.shape_of(x)
    target = [own[position - len(shape)] if extent in (None, -1) else extent for position, extent in enumerate(shape)]
    return idioms.broadcast_to(x, target)


@operation("Rot90")
def convert_rot90(array: Expr, k: int = 1, axes: Axes = (0, 1)) -> Expr:
    for _ in range(k % 4):
        array = op.reverse(idioms.swap_axes(array, *axes), axis=axes[0])
    return array


@operation("Roll")
def convert_roll(x: Expr, shift: Any, axis: Any = None) -> Expr:
    if axis is None:
        return idioms.reshape(elements.rolled(idioms.as_vector(x), int(shift), 0), idioms.shape_of(x))
    shifts, axes = whole_numbers(shift), axes_of(x, axis)
    for by, one in zip(shifts * len(axes) if len(shifts) == 1 else shifts, axes):
        x = elements.rolled(x, by, one)
    return x


@operation("Repeat")
def convert_repeat(x: Expr, repeats: Any, axis: Any = None) -> Expr:
    x, axis = idioms.along_axis(x, axis)
    counts = whole_numbers(repeats)
    if len(counts) == 1:
        return op.repeat(x, repeats=counts[0], axis=axis)
    positions = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return op.take(x, Constant(positions), axis=axis)


@operation("Pad")
def convert_pad(item: Operation, x: Expr, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Expr:
    widths = [pad_width] if isinstance(pad_width, int) else list(pad_width)
    given = [whole_numbers(one) for one in ([widths] if isinstance(widths[0], int) else widths)]
    pairs = [tuple(one * 2 if len(one) == 1 else one) for one in given]
    pairs = pairs * idioms.rank_of(x) if len(pairs) == 1 else pairs
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
        parts, axis = [idioms.as_vector(part) for part in parts], 0
    return idioms.concatenate(parts, int(axis) % idioms.rank_of(parts[0]))


@operation("Hstack", "Vstack", "Dstack")
def convert_stacks(item: Operation, xs: Any) -> Expr:
    least, axis = {"Hstack": (1, 1), "Vstack": (2, 0), "Dstack": (3, 2)}[item.class_name]
    parts = tensors(*xs)
    for _ in range(least):
        parts = [_with_axis(part, least) for part in parts]
    return idioms.concatenate(parts, min(axis, idioms.rank_of(parts[0]) - 1))


def _with_axis(value: Expr, least: int) -> Expr:
    """One more axis where there are less than `least`: the third behind the others, the first two before."""
    rank = idioms.rank_of(value)
    return value if rank >= least else op.expand_dims(value, axis=rank if rank == 2 else 0)


@operation("Split", "ArraySplit", "Hsplit", "Vsplit", "Dsplit")
def convert_split(item: Operation, x: Expr, indices_or_sections: Any, axis: int = 0) -> list[Expr]:
    default = {"Hsplit": min(1, idioms.rank_of(x) - 1), "Vsplit": 0, "Dsplit": 2}.get(item.class_name, axis)
    position = int(default) % idioms.rank_of(x)
    extent = idioms.shape_of(x)[position]
    cuts = indices_or_sections.data.tolist() if isinstance(indices_or_sections, Constant) else indices_or_sections
    if isinstance(cuts, int):
        cuts = np.cumsum([extent // cuts + (1 if part < extent % cuts else 0) for part in range(cuts)])[:-1].tolist()
    return [idioms.slice_axis(x, position, b, e) for b, e in itertools.pairwise([0, *whole_numbers(cuts), extent])]


@operation("Unstack")
def convert_unstack(x: Expr, num: Any = None, axis: Axis = 0) -> list[Expr]:
    return [idioms.index_axis(x, axis, one) for one in range(int(num or idioms.shape_of(x)[axis]))]


@operation("Meshgrid")
def convert_meshgrid(*x: Any, indexing: str = "xy") -> list[Expr]:
    parts = [idioms.as_vector(part) for part in tensors(*x)]
    if indexing == "ij" or len(parts) < 2:
        return elements.meshgrid(parts)
    second, first, *rest = elements.meshgrid([parts[1], parts[0], *parts[2:]])
    return [first, second, *rest]


# ---------------------------------------------------------- Choice of elements: indexing, slices, gathering, scattering
@operation("GetItem")
def convert_get_item(item: Operation, x: Expr, key: Any) -> Expr:
    keys = list(key) if isinstance(key, list | tuple) else [key]
    used = sum(1 for one in keys if one is not None and one is not Ellipsis)
    if Ellipsis in [one for one in keys if not isinstance(one, Expr)]:
        position = next(index for index, one in enumerate(keys) if one is Ellipsis)
        keys[position : position + 1] = [slice(None)] * (idioms.rank_of(x) - used)
    axis = 0
    for one in keys:
        if one is None:
            x = op.expand_dims(x, axis=axis)
            axis += 1
        elif isinstance(one, slice):
            if any(isinstance(part, Expr) for part in (one.start, one.stop, one.step)):
                item.unsupported("a slice between numbers that are computed")
            x = elements.python_slice(x, axis, one.start, one.stop, 1 if one.step is None else one.step)
            axis += 1
        elif isinstance(one, int):
            extent = idioms.shape_of(x)[axis]
            position = one
            if position < 0 and not isinstance(extent, int):
                x = idioms.index_axis(op.reverse(x, axis=axis), axis, -position - 1)
            else:
                x = idioms.index_axis(x, axis, position % extent if isinstance(extent, int) else position)
        elif isinstance(one, Expr) and sum(isinstance(k, Expr) for k in keys) == 1:
            x = op.take(x, one, axis=axis)
            axis += idioms.rank_of(one)
        else:
            item.unsupported("an index of this kind")
    return x


@operation("Take")
def convert_take(x: Expr, indices: Expr, axis: Any = None) -> Expr:
    x, axis = idioms.along_axis(x, axis)
    return op.take(x, elements.from_front(indices, idioms.shape_of(x)[axis]), axis=axis)


@operation("TakeAlongAxis")
def convert_take_along_axis(x: Expr, indices: Expr, axis: Any = None) -> Expr:
    parts, position = [idioms.along_axis(one, axis)[0] for one in (x, indices)], idioms.along_axis(x, axis)[1]
    before, behind = (
        broadcast_shape(*(idioms.shape_of(part)[side] for part in parts))
        for side in (slice(position), slice(position + 1, None))
    )
    x, indices = (idioms.broadcast_to(part, [*before, idioms.shape_of(part)[position], *behind]) for part in parts)
    return op.gather(x, position, elements.from_front(indices, idioms.shape_of(x)[position]))


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
    ends = [b + n for b, n in zip(starts, idioms.shape_of(updates))]
    return op.strided_set(inputs, updates, begin=starts, end=ends, strides=(1,) * len(starts))


@operation("Scatter", "ScatterUpdate")
def convert_scatter(item: Operation, *args: Any, shape: Any = None, reduction: str | None = None) -> Expr:
    if item.class_name == "Scatter":
        indices, updates = args
        (fresh,) = tensors(updates)
        table, mode = idioms.full(0, [int(extent) for extent in shape], idioms.dtype_of(fresh)), "add"
    else:
        inputs, indices, updates = args
        table, fresh = tensors(inputs, updates)
        mode = {None: "update", "add": "add", "mul": "mul", "max": "max", "min": "min"}[reduction]
    (positions,) = tensors(indices)
    return elements.scatter_nd(table, positions, fresh, mode)


@operation("Diagonal")
def convert_diagonal(x: Expr, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> Expr:
    rest = [axis for axis in range(idioms.rank_of(x)) if axis not in (axis1, axis2)]
    return diagonal(idioms.transpose(x, (*rest, axis1, axis2)), offset)


@operation("Trace")
def convert_trace(x: Expr, offset: int = 0, axis1: Axis = 0, axis2: Axis = 1) -> Expr:
    made = convert_diagonal(x, offset, axis1, axis2)
    return op.sum(idioms.cast(made, "int32") if idioms.dtype_of(made) == "bool" else made, axis=(-1,))


@operation("Diag", "Diagflat")
def convert_diag(item: Operation, x: Expr, k: int = 0) -> Expr:
    if item.class_name == "Diag" and idioms.rank_of(x) == 2:
        return convert_diagonal(x, k)
    flat = idioms.as_vector(x)
    extent = idioms.shape_of(flat)[0] + abs(k)
    wide = op.nn.pad(flat, pad_width=[(max(k, 0), max(-k, 0))])
    return op.where(Constant(np.eye(extent, k=k, dtype=bool)), op.expand_dims(wide, axis=0), 0)
