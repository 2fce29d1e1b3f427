"""Shapes, and operators that move, repeat, join and pad; operators on shapes keep known extents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import elements
from tilewright.frontend.builders.product import broadcast_shape, diagonal
from tilewright.frontend.builders.sliding import blocks_as_channels
from tilewright.frontend.builders.window_rules import known
from tilewright.frontend.tensorflow.dilation import squeezed, widened
from tilewright.frontend.tensorflow.node import TfNode, converts
from tilewright.frontend.tensorflow.values import Blocked, Dims, dims_of, numbers_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("Shape", "ShapeN", "Rank", "Size")
def convert_shape(node: TfNode) -> Any:
    kind = node.type("out_type", "int32")
    if node.operator == "ShapeN":
        return [Dims(node.shape(index), kind) for index in range(len(node.values))]
    if node.operator == "Rank":
        return Dims([node.rank()], "int32", True)
    return Dims([idioms.product(node.shape())], kind, True) if node.operator == "Size" else Dims(node.shape(), kind)


@converts("Reshape")
def convert_reshape(node: TfNode) -> Any:
    target = list(node.dims(1))
    value = node.values[0]
    if isinstance(value, Dims) and all(isinstance(extent, int) for extent in target):
        return Dims.of(value.array().reshape(target), value.dtype)
    open_positions = [position for position, extent in enumerate(target) if isinstance(extent, int) and extent == -1]
    if len(open_positions) > 1:
        node.bad(f"a shape of {len(open_positions)} symbolic dimensions")
    if open_positions:
        known = idioms.product([extent for position, extent in enumerate(target) if position not in open_positions])
        whole = idioms.product(node.shape())
        target[open_positions[0]] = _divided(node.shape(), target, whole, known)
    return idioms.reshape(node[0], target)


def _divided(shape: Sequence[Any], target: Sequence[Any], whole: Any, known: Any) -> Any:
    """whole / known, after cancelling symbolic dimensions of both."""
    if isinstance(known, int) and known == 0:
        return 0
    left, right = list(shape), [extent for extent in target if not (isinstance(extent, int) and extent == -1)]
    for extent in list(right):
        match = next((one for one in left if one is extent or (isinstance(one, int) and one == extent)), None)
        if match is not None:
            left.remove(match)
            right.remove(extent)
    rest = idioms.product(right)
    return idioms.product(left) if isinstance(rest, int) and rest == 1 else idioms.product(left) // rest


@converts("Squeeze")
def convert_squeeze(node: TfNode) -> Any:
    value = node.values[0]
    if isinstance(value, Dims) and value.shape == (1,):
        return Dims(value.extents, value.dtype, True)
    axes = [node.axis(axis) for axis in node.attr("squeeze_dims", node.attr("axis", []))]
    if isinstance(value, Blocked) and axes:
        return squeezed(value, axes)
    return idioms.without_axes(node[0], axes)


@converts("ExpandDims")
def convert_expand_dims(node: TfNode) -> Any:
    value = node.values[0]
    if isinstance(value, Dims) and value.scalar:
        return Dims(value.extents, value.dtype)
    if isinstance(value, Blocked):
        return widened(value, node.ints(1, "axis")[0])
    rank = node.rank() + 1
    return op.expand_dims(node[0], axis=node.axis(node.ints(1, "axis")[0], rank))


@converts("Fill", "Empty")
def convert_fill(node: TfNode) -> Expr:
    value = node[1] if node.operator == "Fill" else idioms.constant(0, node.type("dtype"))
    return idioms.broadcast_to(value, node.dims(0))


@converts("Range")
def convert_range(node: TfNode) -> Expr:
    found = [node.static(index, "limits") for index in range(3)] if not node.all_dims() else None
    if found is None:
        limits = [node.dims(index)[0] for index in range(3)]
        if limits[0] == 0 and limits[2] == 1:
            ones = idioms.full(1, (limits[1],), "int32")
            return idioms.cast(op.cumsum(ones, axis=0) - 1, node.type("Tidx", "int32"))
        node.unsupported("a range of symbolic length that does not count up from 0")
    begin, end, step = (value.item() for value in found)
    return idioms.constant(np.arange(begin, end, step), node.type("Tidx", "int32"))


@converts("LinSpace")
def convert_linspace(node: TfNode) -> Expr:
    begin, end, count = (node.static(index, "limits").item() for index in range(3))
    return idioms.constant(np.linspace(begin, end, int(count)), node.dtype())


@converts("Tile")
def convert_tile(node: TfNode) -> Expr:
    times = node.dims(1, "repeats")
    if all(isinstance(one, int) for one in times):
        return op.tile(node[0], reps=[int(one) for one in times])
    value = node[0]
    for axis, count in enumerate(times):
        extent = idioms.shape_of(value)[axis]
        if isinstance(count, int) and count == 1:
            continue
        wide = op.expand_dims(value, axis=axis)
        shape = (*idioms.shape_of(value)[:axis], count, *idioms.shape_of(value)[axis:])
        value = idioms.reshape(
            idioms.broadcast_to(wide, shape),
            (*idioms.shape_of(value)[:axis], count * extent, *idioms.shape_of(value)[axis + 1 :]),
        )
    return value


def _kind_of_sizes(values: Sequence[Any]) -> str | None:
    """The element type of the first shape among values; None without a shape."""
    return next((value.dtype for value in values if isinstance(value, Dims)), None)


def _all_numbers(values: Sequence[Any]) -> list[np.ndarray[Any, Any]] | None:
    """The numbers of each of values; None where one is computed by a run."""
    found = [part for part in map(numbers_of, values) if part is not None]
    return found if len(found) == len(values) else None


@converts("Pack")
def convert_pack(node: TfNode) -> Any:
    axis = node.attr("axis", 0)
    kind = _kind_of_sizes(node.values)
    parts = _all_numbers(node.values) if kind is not None and axis == 0 else None
    if kind is not None and parts and all(part.ndim < 2 and part.shape == parts[0].shape for part in parts):
        return Dims.of(np.stack(parts), kind)
    return op.stack(node.given(), axis=node.axis(axis, node.rank() + 1))


@converts("Unpack")
def convert_unpack(node: TfNode) -> list[Any]:
    value = node.values[0]
    if isinstance(value, Dims):
        rows = value.array()
        return [
            Dims.of(rows[position : position + 1].reshape(value.shape[1:]), value.dtype)
            for position in range(len(rows))
        ]
    axis = node.axis(node.attr("axis", 0))
    return [idioms.index_axis(node[0], axis, position) for position in range(node.attr("num"))]


@converts("ConcatV2", "Concat")
def convert_concat(node: TfNode) -> Any:
    new = node.operator == "ConcatV2"
    parts = node.values[:-1] if new else node.values[1:]
    axis = node.ints(len(node.values) - 1 if new else 0, "axis")[0]
    numbers, kind = _all_numbers(parts), _kind_of_sizes(parts)
    if kind is not None and numbers is not None:
        return Dims.of(np.concatenate(numbers, axis), kind)
    positions = range(len(node.values) - 1) if new else range(1, len(node.values))
    return idioms.concatenate([node[position] for position in positions], node.axis(axis, node.rank(positions[0])))


@converts("Split", "SplitV")
def convert_split(node: TfNode) -> list[Any]:
    new = node.operator == "SplitV"
    value = node.values[0 if new else 1]
    if isinstance(value, Dims) and not new:
        return [Dims.of(part, value.dtype) for part in np.split(value.array(), node.attr("num_split"), node.ints(0)[0])]
    data = node[0] if new else node[1]
    axis = node.axis(node.ints(2 if new else 0, "axis")[0], idioms.rank_of(data))
    sizes = node.ints(1, "sizes") if new else int(node.attr("num_split"))
    known(node, idioms.shape_of(data)[axis : axis + 1], "parts")
    return list(elements.split_axis(node, data, axis, sizes))


# ------------------------------------------------------------------------------------------------------------- slices
@converts("Slice")
def convert_slice(node: TfNode) -> Any:
    begin, size = node.dims(1, "begin"), node.dims(2, "size")
    value = node.values[0]
    if isinstance(value, Dims):
        first = begin[0]
        return Dims(value.extents[first:] if size[0] == -1 else value.extents[first : first + size[0]], value.dtype)
    ends = [extent if isinstance(n, int) and n == -1 else b + n for b, n, extent in zip(begin, size, node.shape())]
    axes = [
        a for a, (b, e) in enumerate(zip(begin, ends)) if not (isinstance(b, int) and b == 0 and e is node.shape()[a])
    ]
    if not axes:
        return node[0]
    return op.strided_slice(
        node[0], begin=[begin[a] for a in axes], end=[ends[a] for a in axes], strides=[1] * len(axes), axes=axes
    )


@converts("StridedSlice")
def convert_strided_slice(node: TfNode) -> Any:
    """By the masks of Python's slices: begin and end left out, an ellipsis, new axes, axes that disappear."""
    strides = list(node.dims(3, "slices"))
    begin, end = (_bounds(node, index, len(strides)) for index in (1, 2))
    value = node.values[0]
    masks = {name: node.attr(f"{name}_mask", 0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    known = all(isinstance(one, int) for one in (*begin, *end, *strides))
    if isinstance(value, Dims) and known and not masks["ellipsis"] | masks["new_axis"]:
        return _slice_of_dims(value, list(zip(begin, end, strides)), masks)
    element, part = partial(_element, node), partial(_slice, node)
    return elements.masked_slices(node[0], node.rank(), list(zip(begin, end, strides)), masks, element, part)


def _bounds(node: TfNode, index: int, count: int) -> list[Any]:
    """The beginnings or ends of slices: numbers, or of a vector that is known at run time only its elements."""
    given = node.values[index]
    if dims_of(given) is None:
        return [idioms.index_axis(node[index], 0, position) for position in range(count)]
    return list(node.dims(index, "slices"))


def _slice_of_dims(value: Dims, parts: Sequence[tuple[int, int, int]], masks: dict[str, int]) -> Dims:
    index: list[int | slice] = []
    for position, (begin, end, stride) in enumerate(parts):
        if masks["shrink_axis"] >> position & 1:
            index.append(begin)
        else:
            first = None if masks["begin"] >> position & 1 else begin
            index.append(slice(first, None if masks["end"] >> position & 1 else end, stride))
    found = value.array()[tuple(index)]
    return Dims.of(found, value.dtype) if isinstance(found, np.ndarray) else Dims([found], value.dtype, True)


def _element(node: TfNode, data: Expr, axis: int, position: Any) -> Expr:
    extent = idioms.shape_of(data)[axis]
    if isinstance(position, Expr):
        return op.take(data, elements.from_front(position, extent), axis=axis)
    if isinstance(extent, int) and isinstance(position, int):
        if not -extent <= position < extent:
            node.bad(f"element {position} of an axis of {extent}")
        return idioms.index_axis(data, axis, position % extent)
    if isinstance(position, int) and position < 0:
        return idioms.index_axis(op.reverse(data, axis=axis), axis, -position - 1)
    return idioms.index_axis(data, axis, position)


def _slice(node: TfNode, data: Expr, axis: int, begin: Any, end: Any, stride: Any) -> Expr:
    if isinstance(begin, Expr) or isinstance(end, Expr):
        node.unsupported("its slices (inputs 1 and 2) are computed at run time")
    return elements.python_slice(data, axis, begin, end, stride)


# ------------------------------------------------------------------------------------------------------------- padding
@converts("Pad", "PadV2", "MirrorPad")
def convert_pad(node: TfNode) -> Expr:
    mode = node.attr("mode", "") if node.operator == "MirrorPad" else "constant"
    fill = node.static(2, "fill").item() if node.operator == "PadV2" else 0
    return elements.padded(node, node[0], node.static(1, "padding").reshape(-1, 2).tolist(), mode.lower(), fill)


@converts("ReverseV2", "Reverse")
def convert_reverse(node: TfNode) -> Expr:
    if node.operator == "Reverse":
        return elements.reversed_axes(node[0], np.flatnonzero(node.static(1, "axes")).tolist())
    return elements.reversed_axes(node[0], map(node.axis, node.ints(1)))


@converts("Roll")
def convert_roll(node: TfNode) -> Expr:
    value = node[0]
    for by, axis in zip(node.ints(1, "shift"), node.ints(2)):
        value = elements.rolled(value, by, node.axis(axis))
    return value


# ------------------------------------------------------------------------------------------------------------ diagonals
converts.functions({
    "MatrixBandPart": lambda node: elements.band(node[0], node.ints(1, "band")[0], node.ints(2, "band")[0]),
    "SpaceToDepth DepthToSpace": lambda node: blocks_as_channels(
        node[0], node.attr("block_size"), node.operator == "DepthToSpace", node.last
    ),
    "InvertPermutation": lambda node: op.invert_permutation(node[0]),
    "BroadcastTo": lambda node: idioms.broadcast_to(node[0], node.dims(1)),
    "ReverseSequence": lambda node: op.reverse_sequence(
        node[0], node[1], seq_axis=node.attr("seq_dim"), batch_axis=node.attr("batch_dim", 0)
    ),
})  # fmt: skip


def _main_diagonal(node: TfNode, index: int) -> None:
    """Refuse other diagonals, which newer versions of an operator name by input `index`."""
    if node.operator[-2:] in ("V2", "V3") and node.ints(index, "diagonal") != [0]:
        node.unsupported("other than the main diagonal")


@converts("MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", "Diag")
def convert_diag(node: TfNode) -> Expr:
    _main_diagonal(node, 1)
    if node.operator == "Diag" and node.rank() != 1:
        node.unsupported("tensors of more than one axis")
    return elements.on_diagonal(node[0])


@converts("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", "DiagPart")
def convert_diag_part(node: TfNode) -> Expr:
    _main_diagonal(node, 1)
    if node.operator == "DiagPart" and node.rank() != 2:
        node.unsupported("tensors of more than two axes")
    return diagonal(node[0])


@converts("MatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def convert_set_diag(node: TfNode) -> Expr:
    _main_diagonal(node, 2)
    return op.matrix_set_diag(node[0], node[1])


# --------------------------------------------------------------------------------------------------------------- blocks
converts.functions({
    **dict.fromkeys(
        ("Transpose", "ConjugateTranspose"),
        lambda node: idioms.transpose(node[0], [node.axis(axis) for axis in node.ints(1)]),
    ),
    "BroadcastArgs": lambda node: Dims(broadcast_shape(node.dims(0), node.dims(1)), node.type("T", "int32")),
})  # fmt: skip
