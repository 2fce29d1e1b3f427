"""Elements moved and chosen by their positions: gathering, scattering, rolling, padding, bands of matrices."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.graph_node import Labelled, Refusing
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import as_dim


def from_front(indices: Expr, extent: Any) -> Expr:
    """int32 positions of which negative ones were counted from the end."""
    indices = idioms.cast(indices, "int32")
    if not isinstance(extent, int) or (isinstance(indices, Constant) and (indices.data >= 0).all()):
        return indices
    return op.where(indices < 0, indices + extent, indices)


def gather_nd(x: Expr, indices: Expr) -> Expr:
    """Elements by their coordinates, the last axis of the indices."""
    return op.gather_nd(x, idioms.move_axis(indices, idioms.rank_of(indices) - 1, 0))


def scatter_nd(x: Expr, indices: Expr, updates: Expr, mode: str = "update") -> Expr:
    """`x` with updates at coordinates, the last axis of the indices."""
    return op.scatter_nd(x, idioms.move_axis(indices, idioms.rank_of(indices) - 1, 0), updates, mode=mode)


def looked_up(wanted: Expr, keys: np.ndarray, values: np.ndarray, default: Expr) -> Expr:
    """The value of each of int64 numbers among `keys`, found in a sorted copy of them; `default` for others."""
    order = np.argsort(keys, kind="stable")
    ordered = Constant(keys[order].astype(np.int64))
    found = op.minimum(op.searchsorted(ordered, wanted, dtype="int64"), idioms.constant(len(keys) - 1, "int64"))
    known = op.equal(op.take(ordered, found, axis=0), wanted)
    return op.where(known, op.take(idioms.constant(values[order], idioms.dtype_of(default)), found, axis=0), default)


def batched_take(x: Expr, indices: Expr, axis: int, batch: int) -> Expr:
    """Elements along an axis by the indices [batch …, own …] of each sample of `batch` axes."""
    shape, own = idioms.shape_of(x), idioms.shape_of(indices)[batch:]
    moved = idioms.move_axis(x, axis, batch)
    rest = idioms.shape_of(moved)[batch + 1 :]
    flat = idioms.reshape(indices, (*shape[:batch], idioms.product(own), *[1] * len(rest)))
    found = op.gather(moved, batch, idioms.broadcast_to(flat, (*shape[:batch], idioms.product(own), *rest)))
    made = idioms.reshape(found, (*shape[:batch], *own, *rest))
    first = batch + len(own)  # the axes that were before the gathered one
    order = [*range(batch), *range(first, first + axis - batch), *range(batch, first)]
    return op.transpose(made, axes=[*order, *range(len(order), idioms.rank_of(made))])


def rolled(x: Expr, shift: Any, axis: int) -> Expr:
    """`x` moved along an axis, what leaves at the end coming in at the front; shift and extent may be symbolic."""
    extent = idioms.shape_of(x)[axis]
    if isinstance(extent, int) and isinstance(shift, int):
        shift = shift % extent if extent else 0
    if isinstance(shift, int) and shift == 0:
        return x
    if isinstance(shift, int):
        cut = as_dim(-shift if shift < 0 else extent - shift)
    else:
        cut = as_dim((extent - shift) % extent)
    return idioms.concatenate([idioms.slice_axis(x, axis, cut, extent), idioms.slice_axis(x, axis, 0, cut)], axis)


#: A bound of a slice that is left out.
_FAR = 1 << 30


def python_slice(x: Expr, axis: int, begin: Any, end: Any, stride: int) -> Expr:
    """The elements of an axis that Python's slice [begin:end:stride] has; bounds and extent may be symbolic."""
    extent = idioms.shape_of(x)[axis]
    if begin is None and end is None and stride == 1:
        return x
    if all(isinstance(number, int) for number in (extent, begin or 0, end or 0)):
        begin, end, stride = slice(begin, end, stride).indices(extent)
        end = max(end, begin) if stride > 0 else end if end >= 0 else -extent - 1
    far = _FAR if stride > 0 else -_FAR
    first, last = (-far if begin is None else begin), (far if end is None else end)
    return op.strided_slice(x, begin=(first,), end=(last,), strides=(stride,), axes=(axis,))


def split_axis(node: Labelled, x: Expr, axis: int, sizes: Sequence[int] | int) -> list[Expr]:
    """`x` in parts along an axis, by their sizes, of which -1 is what is left, or, all of one size, by their number."""
    extent = idioms.shape_of(x)[axis]
    if isinstance(sizes, int):
        if sizes < 1 or extent % sizes:
            node.bad(f"{extent} elements do not make {sizes} parts")
        sizes = [extent // sizes] * sizes
    sizes = [extent - sum(sizes) - 1 if size == -1 else size for size in sizes]
    bounds = np.cumsum([0, *sizes])
    if min(sizes) < 0 or bounds[-1] != extent:
        node.bad(f"parts of {list(sizes)} of {extent} elements")
    return [idioms.slice_axis(x, axis, int(low), int(high)) for low, high in itertools.pairwise(bounds)]


def reshaped(node: Labelled, x: Expr, shape: Sequence[int]) -> Expr:
    """`x` in a shape in which 0 keeps an extent and -1 is what is left."""
    own = idioms.shape_of(x)
    if any(extent == 0 and position >= len(own) for position, extent in enumerate(shape)) or list(shape).count(-1) > 1:
        node.bad(f"shape {list(shape)} of {list(map(str, own))}")
    return op.reshape(x, newshape=tuple(own[at] if extent == 0 else extent for at, extent in enumerate(shape)))


def reversed_axes(x: Expr, axes: Iterable[int]) -> Expr:
    """`x` with the order of the elements along axes turned around."""
    for axis in axes:
        x = op.reverse(x, axis=axis)
    return x


def masked_slices(
    data: Expr, rank: int, bounds: Sequence[Sequence[Any]], masks: dict[str, int], element: Any, part: Any
) -> Expr:
    """Python's slices of TensorFlow's masks: bounds left out, an ellipsis, new axes, axes that disappear.

    `bounds` are begin, end and stride of each slice; `element(data, axis, position)` and `part(data, axis, begin, end,
    stride)` take one element of an axis and some of them.
    """
    shown = [not (masks["new_axis"] | masks["ellipsis"]) >> position & 1 for position in range(len(bounds))]
    axis = 0
    for position, (begin, end, stride) in enumerate(bounds):
        if masks["ellipsis"] >> position & 1:
            axis += rank - sum(shown)
        elif masks["new_axis"] >> position & 1:
            data, axis = op.expand_dims(data, axis=axis), axis + 1
        elif masks["shrink_axis"] >> position & 1:
            data = element(data, axis, begin)
        else:
            first = None if masks["begin"] >> position & 1 else begin
            last = None if masks["end"] >> position & 1 else end
            data, axis = part(data, axis, first, last, stride), axis + 1
    return data


def padded(node: Labelled, x: Expr, pairs: Sequence[Any], mode: str = "constant", value: float = 0.0) -> Expr:
    """`x` with (before, behind) elements around each axis: a number, mirrored, or those of the edge."""
    if mode == "constant":
        return op.nn.pad(x, pad_width=tuple(pairs), pad_value=value)
    if mode in ("reflect", "symmetric"):
        return op.nn.mirror_pad(x, pad_width=tuple(pairs), mode=mode.upper())
    if mode not in ("edge", "replicate"):
        node.unsupported(f"padding by {mode!r} is not supported")
    return op.nn.pad(x, pad_width=tuple(pairs), pad_mode="edge")


def diagonals(x: Expr, lower: int | None, upper: int | None) -> Expr:
    """Matrices with zeros but for the diagonals from `lower` to `upper` above the main one; None leaves none out."""
    rows, columns = idioms.shape_of(x)[-2:]
    above = np.arange(columns) - np.arange(rows)[:, None]
    kept = np.ones_like(above, bool) if lower is None else above >= lower
    kept = kept if upper is None else kept & (above <= upper)
    return op.where(idioms.constant(kept, "bool"), x, 0)


def causal_mask(rows: Any, columns: Any) -> Expr:
    """[rows, columns]: True where the position of the key is not behind that of the query; extents may be symbolic."""
    if isinstance(rows, int) and isinstance(columns, int):
        return Constant(np.tri(rows, columns, dtype=bool))
    first, second = (op.cumsum(idioms.full(1, (extent,), "int32"), axis=0) for extent in (rows, columns))
    return op.expand_dims(first, axis=1) >= second


def on_diagonal(x: Expr) -> Expr:
    """Matrices of zeros but for the elements of the last axis on their diagonals."""
    wide = op.expand_dims(x, axis=idioms.rank_of(x))
    return op.where(idioms.constant(np.eye(idioms.shape_of(x)[-1]), "bool"), wide, 0)


def band(x: Expr, lower: int, upper: int) -> Expr:
    """Matrices with zeros but for `lower` diagonals below the main one and `upper` above; -1 keeps all of them."""
    return diagonals(x, -lower if lower >= 0 else None, upper if upper >= 0 else None)


def meshgrid(values: Sequence[Expr]) -> list[Expr]:
    """Each of vectors along an axis of its own, repeated along those of the others."""
    shape = [idioms.shape_of(value)[0] for value in values]
    return [idioms.broadcast_to(idioms.on_axis(value, axis, len(shape)), shape) for axis, value in enumerate(values)]


def shuffled_channels(node: Refusing, x: Expr, groups: int) -> Expr:
    """The channels of [N, C, …], one of each group in turn."""
    batch, channels, *extents = idioms.shape_of(x)
    if groups < 1 or channels % groups:
        node.bad(f"{channels} channels do not make {groups} groups")
    split = idioms.reshape(x, (batch, groups, channels // groups, *extents))
    return idioms.reshape(idioms.move_axis(split, 1, 2), idioms.shape_of(x))


def windows_along(node: Labelled, x: Expr, axis: int, size: int, stride: int) -> Expr:
    """Windows of an axis, side by side on a new one before it."""
    extent = idioms.shape_of(x)[axis]
    if size < 1 or stride < 1 or extent < size:
        node.bad(f"windows of {size} by {stride} of {extent} elements")
    positions = np.arange(0, extent - size + 1, stride)[:, None] + np.arange(size)
    return op.take(x, idioms.constant(positions, "int32"), axis=axis, mode="fast")
