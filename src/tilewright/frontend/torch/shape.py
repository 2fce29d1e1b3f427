"""Operators that arrange elements: shapes, axes, slices, joining, repeating, padding."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.frontend.idioms import (
    broadcast_to,
    concatenate,
    constant,
    index_axis,
    move_axis,
    product,
    rank_of,
    reshape,
    shape_of,
    slice_axis,
    transpose,
)
from tilewright.frontend.torch.build import arange, element_type, extent_of, on_rank
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.selection import position_of_run, slice_of_run
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import as_dim


@converts(
    "aten.alias", "aten.clone", "aten.contiguous", "aten.detach", "aten.detach_", "aten.lift_fresh",
    "aten.lift_fresh_copy", "aten.lift", "aten.positive", "aten.resolve_conj", "aten.resolve_neg", "aten._conj",
    "aten.conj_physical", "aten.conj", "aten.real", "aten.view_as_real_copy", "aten.alias_copy", "aten.detach_copy",
    "aten._conj_physical", "aten.copy_to_device",
)  # fmt: skip
def convert_identity(node: TorchNode) -> Expr:
    """The input itself."""
    return node["self"]


@converts("aten.copy")
def convert_copy(node: TorchNode) -> Expr:
    """Another tensor in the type and shape of the first."""
    return broadcast_to(node.tensor("src"), node.shape)


@converts(
    "aten.view", "aten.view_copy", "aten._unsafe_view", "aten.reshape", "aten.flatten", "aten.unflatten",
    "aten.squeeze", "aten.squeeze_copy", "aten.unsqueeze", "aten.unsqueeze_copy", "aten.ravel", "aten.view_as",
    "aten.reshape_as", "aten._reshape_alias", "aten.atleast_1d", "aten.atleast_2d", "aten.atleast_3d",
)  # fmt: skip
def convert_reshape(node: TorchNode) -> Expr | list[Expr]:
    """The elements in order under another shape; those of several tensors where there are."""
    if node.get("tensors") is not None:
        return [reshape(value, node.shape_at(index)) for index, value in enumerate(node["tensors"])]
    data = node["self"]
    if node.target == "aten.view.dtype":
        return data if element_type(data) == node.dtype else op.reinterpret(data, dtype=str(node.dtype))
    return node.reshaped(data)


@converts("aten.expand", "aten.expand_copy", "aten.expand_as", "aten.broadcast_to")
def convert_expand(node: TorchNode) -> Expr:
    """Broadcast to a shape."""
    return node.spread(node["self"])


@converts("aten.broadcast_tensors")
def convert_broadcast_tensors(node: TorchNode) -> list[Expr]:
    """Every tensor broadcast to the shape of all."""
    return [broadcast_to(value, node.shape) for value in node["tensors"]]


@converts("aten.permute", "aten.permute_copy")
def convert_permute(node: TorchNode) -> Expr:
    """Axes in another order."""
    rank = rank_of(node["self"])
    return transpose(node["self"], [node.normalize(axis, rank) for axis in node["dims"]])


@converts("aten.transpose", "aten.transpose_", "aten.transpose_copy", "aten.swapaxes", "aten.swapdims", "aten.t",
          "aten.t_copy")  # fmt: skip
def convert_transpose(node: TorchNode) -> Expr:
    """Two axes exchanged."""
    data = node["self"]
    rank = rank_of(data)
    if rank < 2:
        return data
    first = node.get("dim0", node.get("axis0", 0))
    second = node.get("dim1", node.get("axis1", 1))
    order = list(range(rank))
    a, b = node.normalize(first, rank), node.normalize(second, rank)
    order[a], order[b] = order[b], order[a]
    return transpose(data, order)


@converts("aten.numpy_T", "aten.mT", "aten.mH", "aten.adjoint", "aten.matrix_H")
def convert_matrix_transpose(node: TorchNode) -> Expr:
    """The last two axes exchanged; of numpy_T all."""
    rank = rank_of(node["self"])
    if "numpy_T" in node.target:
        return transpose(node["self"], range(rank)[::-1])
    return transpose(node["self"], [*range(rank - 2), rank - 1, rank - 2])


@converts("aten.movedim", "aten.moveaxis")
def convert_movedim(node: TorchNode) -> Expr:
    """Axes moved to other positions, the rest in order."""
    rank = rank_of(node["self"])
    source, target = (
        [node.normalize(axis, rank) for axis in ([node[name]] if isinstance(node[name], int) else node[name])]
        for name in ("source", "destination")
    )
    rest = iter([axis for axis in range(rank) if axis not in source])
    positions = dict(zip(target, source))
    return transpose(node["self"], [positions[axis] if axis in positions else next(rest) for axis in range(rank)])


@converts("aten.slice", "aten.slice_copy")
def convert_slice(node: TorchNode) -> Expr:
    """Elements from `start` to `end` of an axis in steps; negative positions count from the back."""
    data, axis = node["self"], node.axis()
    extent, step = shape_of(data)[axis], int(node["step"])
    start, end = node["start"], node["end"]
    if isinstance(start, Expr) or isinstance(end, Expr):
        return slice_of_run(node, data, axis, start, end, step)
    begin, stop = _bounds(extent, start, end)
    return slice_axis(data, axis, begin, stop, step)


def _bounds(extent: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """First position and the one behind the last, counted from the front, both within the extent."""
    start = 0 if start is None else start
    end = extent if end is None or (isinstance(end, int) and end >= 2**62) else end
    if is_static([extent, start, end]):
        begin, stop, _ = slice(start, end).indices(extent)
        return begin, max(begin, stop)
    begin, stop = (
        as_dim(extent + position) if isinstance(position, int) and position < 0 else position
        for position in (start, end)
    )
    if stop is not extent:
        stop = as_dim(tir.minimum(tir.convert(stop), tir.convert(extent)))
    return begin, stop


@converts("aten.slice_scatter")
def convert_slice_scatter(node: TorchNode) -> Expr:
    """The tensor with a slice replaced."""
    data, axis = node["self"], node.axis()
    extent, start, end = shape_of(data)[axis], node["start"], node["end"]
    both = concatenate([data, node.tensor("src")], axis)
    if isinstance(start, Expr) or isinstance(end, Expr):
        bounds = [position_of_run(node, position, extent) for position in (start or 0, extent if end is None else end)]
        return op.take(both, _replaced(extent, bounds[0], bounds[1], node["step"]), axis=axis, mode="clip")
    begin, stop = _bounds(extent, start, end)
    if not is_static((extent, begin, stop)):
        open_positions = _replaced(extent, extent_of(begin), extent_of(stop), node["step"])
        return op.take(both, open_positions, axis=axis, mode="clip")
    positions = np.arange(extent)
    positions[begin : stop : node["step"]] = extent + np.arange(len(range(begin, stop, node["step"])))
    return op.take(both, Constant(positions), axis=axis, mode="clip")


def _replaced(extent: Any, begin: Expr, stop: Expr, step: int) -> Expr:
    """0, 1 … below `extent`; every `step`-th position from `begin` to `stop`, which a run computes, on from
    `extent`.
    """
    positions = arange(extent)
    beyond = positions - begin
    within = op.logical_and(positions >= begin, positions < stop)
    within = op.logical_and(within, op.equal(op.floor_mod(beyond, constant(step, "int64")), constant(0, "int64")))
    return op.where(within, op.floor_divide(beyond, constant(step, "int64")) + extent_of(extent), positions)


@converts("aten.select_scatter")
def convert_select_scatter(node: TorchNode) -> Expr:
    """The tensor with one slice of an axis replaced."""
    data, axis = node["self"], node.axis()
    extent = shape_of(data)[axis]
    position = as_dim(node["index"] + extent) if node["index"] < 0 else node["index"]
    row = op.expand_dims(node.tensor("src"), axis=axis)
    parts = [slice_axis(data, axis, 0, position), row, slice_axis(data, axis, position + 1, extent)]
    return concatenate([part for part in parts if shape_of(part)[axis] != 0], axis)


@converts("aten.diagonal_scatter")
def convert_diagonal_scatter(node: TorchNode) -> Expr:
    """The tensor with a diagonal replaced."""
    data = node["self"]
    shape = shape_of(data)
    if not is_static(shape):
        node.unsupported("a diagonal written into a tensor of symbolic shape")
    count = int(np.prod(shape, dtype=np.int64))
    positions = np.arange(count).reshape(shape)
    diagonal = np.diagonal(positions, node["offset"], node["dim1"], node["dim2"])
    source = np.arange(count)
    source[diagonal.reshape(-1)] = count + np.arange(diagonal.size)
    both = concatenate([reshape(data, (count,)), reshape(node.tensor("src"), (diagonal.size,))], 0)
    return op.take(both, Constant(source.reshape(shape)), axis=0, mode="clip")


@converts("aten.select", "aten.select_copy")
def convert_select(node: TorchNode) -> Expr:
    """One slice of an axis, which disappears."""
    data, axis, position = node["self"], node.axis(), node["index"]
    if isinstance(position, Expr):
        return op.take(data, position_of_run(node, position, shape_of(data)[axis]), axis=axis, mode="clip")
    if isinstance(position, int) and position < 0:
        position = as_dim(shape_of(data)[axis] + position)
    return index_axis(data, axis, position)


@converts("aten.narrow", "aten.narrow_copy")
def convert_narrow(node: TorchNode) -> Expr:
    """`length` elements of an axis from `start` on."""
    data, axis, start = node["self"], node.axis(), node["start"]
    if isinstance(start, Expr):
        first = position_of_run(node, start, shape_of(data)[axis])
        return slice_of_run(node, data, axis, first, first + node.as_tensor(node["length"], "int64"), 1)
    start = as_dim(shape_of(data)[axis] + start) if start < 0 else start
    return slice_axis(data, axis, start, as_dim(start + node["length"]))


@converts("aten.unbind", "aten.unbind_copy")
def convert_unbind(node: TorchNode) -> list[Expr]:
    """Every slice of an axis."""
    axis = node.axis()
    return [index_axis(node["self"], axis, position) for position in range(shape_of(node["self"])[axis])]


@converts(
    "aten.split", "aten.split_with_sizes", "aten.split_copy", "aten.split_with_sizes_copy", "aten.chunk",
    "aten.tensor_split", "aten.unsafe_split", "aten.unsafe_split_with_sizes", "aten.unsafe_chunk",
    "aten.hsplit", "aten.vsplit", "aten.dsplit", "aten.array_split",
)  # fmt: skip
def convert_split(node: TorchNode) -> list[Expr]:
    """Parts of an axis one after another, as long as PyTorch found them to be."""
    rank = rank_of(node["self"])
    fixed = {"hsplit": 1 if rank > 1 else 0, "vsplit": 0, "dsplit": 2}.get(node.target.split(".")[1])
    axis = node.axis() if fixed is None else fixed
    positions = node.get("tensor_indices_or_sections")
    if isinstance(positions, Expr):
        cuts = [None, *(index_axis(positions, 0, index) for index in range(len(node.value) - 1)), None]
        return [slice_of_run(node, node["self"], axis, *ends, 1) for ends in pairwise(cuts)]
    sizes = node.get("split_sizes", ())
    if any(isinstance(size, Expr) for size in sizes):
        ends = list(accumulate((node.as_tensor(size, "int64") for size in sizes), op.add))
        return [slice_of_run(node, node["self"], axis, *cut, 1) for cut in pairwise([None, *ends])]
    parts, begin = [], 0
    for index in range(len(node.value)):
        end = as_dim(begin + node.shape_at(index)[axis])
        parts.append(slice_axis(node["self"], axis, begin, end))
        begin = end
    return parts


@converts("aten.cat", "aten.concat", "aten.concatenate")
def convert_cat(node: TorchNode) -> Expr:
    """Tensors joined along an axis; empty vectors do not count."""
    values = [node.as_tensor(value) for value in node["tensors"]]
    kept = [value for value in values if shape_of(value) != (0,)] or values[:1]
    axis = node.normalize(node["dim"], rank_of(kept[0]))
    kept = [value for value in kept if shape_of(value)[axis] != 0] or kept[:1]
    return concatenate(kept, axis)


@converts("aten.hstack", "aten.vstack", "aten.dstack", "aten.column_stack", "aten.row_stack")
def convert_stack_by_name(node: TorchNode) -> Expr:
    """Tensors joined along the axis that the operator's name says."""
    values = [node.as_tensor(value) for value in node["tensors"]]
    name = node.target.split(".")[1]
    if name == "hstack":
        values = [reshape(value, (1,)) if not rank_of(value) else value for value in values]
        return concatenate(values, 0 if rank_of(values[0]) == 1 else 1)
    if name in ("vstack", "row_stack"):
        return concatenate([on_rank(value, 2) for value in values], 0)
    if name == "column_stack":
        return concatenate(
            [reshape(value, (product(shape_of(value)), 1)) if rank_of(value) < 2 else value for value in values], 1
        )
    deep = [on_rank(value, 2) for value in values]
    return concatenate([op.expand_dims(v, axis=2) if rank_of(v) == 2 else v for v in deep], 2)


@converts("aten.stack")
def convert_stack(node: TorchNode) -> Expr:
    """Tensors joined along a new axis."""
    values = [node.as_tensor(value) for value in node["tensors"]]
    axis = node.normalize(node["dim"], rank_of(values[0]) + 1)
    return op.stack(values, axis=axis)


@converts("aten.flip", "aten.fliplr", "aten.flipud")
def convert_flip(node: TorchNode) -> Expr:
    """Axes reversed."""
    data = node["self"]
    given = {"fliplr": [1], "flipud": [0]}.get(node.target.split(".")[1], node.get("dims"))
    for axis in given if rank_of(data) else ():
        data = op.reverse(data, axis=node.normalize(axis))
    return data


@converts("aten.roll")
def convert_roll(node: TorchNode) -> Expr:
    """Axes rotated; without axes the tensor as one vector."""
    data, shifts, axes = node["self"], list(node["shifts"]), list(node["dims"])
    shape = shape_of(data)
    if not shape:
        return data
    if not axes:
        return reshape(_rolled(reshape(data, (product(shape),)), 0, shifts[0]), shape)
    for shift, axis in zip(shifts, axes):
        data = _rolled(data, node.normalize(axis), shift)
    return data


def _rolled(data: Expr, axis: int, shift: Any) -> Expr:
    extent = shape_of(data)[axis]
    if isinstance(extent, int) and isinstance(shift, int):
        shift = shift % extent if extent else 0
        if shift == 0:
            return data
    if not isinstance(shift, int):
        middle = as_dim((extent - shift) % extent)
        return concatenate([slice_axis(data, axis, middle, extent), slice_axis(data, axis, 0, middle)], axis)
    middle = as_dim(-shift) if isinstance(shift, int) and shift < 0 else as_dim(extent - shift)
    return concatenate([slice_axis(data, axis, middle, extent), slice_axis(data, axis, 0, middle)], axis)


@converts("aten.rot90")
def convert_rot90(node: TorchNode) -> Expr:
    """A quarter turn in the plane of two axes, `k` times."""
    data, turns = node["self"], node["k"] % 4
    first, second = (node.normalize(axis) for axis in node["dims"])
    order = list(range(rank_of(data)))
    order[first], order[second] = second, first
    if turns == 2:
        return op.reverse(op.reverse(data, axis=first), axis=second)
    if turns == 1:
        return transpose(op.reverse(data, axis=second), order)
    return op.reverse(transpose(data, order), axis=second) if turns else data


@converts("aten.repeat", "aten.tile")
def convert_repeat(node: TorchNode) -> Expr:
    """The tensor laid side by side with itself."""
    data = node["self"]
    counts = list(node.get("repeats") or node.get("dims") or [])
    if any(isinstance(count, int) and count == 0 for count in counts):
        return op.zeros(shape=node.shape, dtype=str(node.dtype))
    counts = [1] * (rank_of(data) - len(counts)) + counts
    data = on_rank(data, len(counts))
    return data if all(count == 1 for count in counts) else op.tile(data, reps=tuple(counts))


@converts("aten.repeat_interleave.self_int")
def convert_repeat_interleave(node: TorchNode) -> Expr:
    """Every slice of an axis several times in a row."""
    data, axis = node["self"], node["dim"]
    if axis is None:
        data, axis = reshape(data, (product(shape_of(data)),)), 0
    return op.repeat(data, repeats=node["repeats"], axis=node.normalize(axis, rank_of(data)))


@converts("aten.diagonal", "aten.diagonal_copy", "aten.linalg_diagonal")
def convert_diagonal(node: TorchNode) -> Expr:
    """A diagonal of the plane of two axes, as the last axis."""
    data = node["A"] if "A" in node.arguments else node["self"]
    first, second = (node.normalize(node[name], rank_of(data)) for name in ("dim1", "dim2"))
    rest = [axis for axis in range(rank_of(data)) if axis not in (first, second)]
    moved = transpose(data, [*rest, first, second])
    rows, columns = shape_of(moved)[-2:]
    if not is_static((rows, columns)):
        node.unsupported("the diagonal of axes of symbolic extent")
    positions = np.diagonal(np.arange(rows * columns).reshape(rows, columns), node["offset"])
    flat = reshape(moved, (*shape_of(moved)[:-2], rows * columns))
    return op.take(flat, Constant(np.ascontiguousarray(positions)), axis=len(rest), mode="clip")


@converts("aten.diag_embed", "aten.diag")
def convert_diag_embed(node: TorchNode) -> Expr:
    """Vectors on a diagonal of matrices of zeros; of `diag` of a matrix its diagonal."""
    data = node["self"]
    offset = node.get("offset", node.get("diagonal", 0))
    if node.target.startswith("aten.diag.") and rank_of(data) == 2:
        rows, columns = shape_of(data)
        positions = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset)
        flat = reshape(data, (rows * columns,))
        return op.take(flat, Constant(np.ascontiguousarray(positions)), axis=0, mode="clip")
    rank, size = len(node.shape), shape_of(data)[-1] + abs(offset)
    mask = np.eye(size, k=offset, dtype=bool)
    positions = np.zeros((size, size), np.int64)
    positions[mask] = np.arange(shape_of(data)[-1])
    spread = op.take(data, Constant(positions), axis=rank_of(data) - 1, mode="clip")
    made = op.where(Constant(mask), spread, constant(0, node.dtype))
    first, second = (node.normalize(node.get(name, position), rank) for name, position in (("dim1", -2), ("dim2", -1)))
    rest = iter(range(rank - 2))
    return transpose(
        made, [rank - 2 if axis == first else rank - 1 if axis == second else next(rest) for axis in range(rank)]
    )


@converts("aten.unfold", "aten.unfold_copy")
def convert_unfold(node: TorchNode) -> Expr:
    """Windows of an axis as a new last axis."""
    data = node["self"]
    if not rank_of(data):
        return reshape(data, node.shape)
    axis, size, step = node.axis("dimension"), node["size"], node["step"]
    count = as_dim((shape_of(data)[axis] - size) // step + 1)
    first: Expr = op.expand_dims(arange(count), axis=1) * constant(step, "int64")
    if isinstance(count, int):
        first = Constant(np.arange(count)[:, None] * step)
    taken = op.take(data, first + constant(np.arange(size), "int64"), axis=axis, mode="clip")
    return move_axis(taken, axis + 1, rank_of(taken) - 1)


@converts("aten.as_strided", "aten.as_strided_copy", "aten.as_strided_scatter")
def convert_as_strided(node: TorchNode) -> Expr:
    """Elements of the memory of a tensor that lies in one piece, by strides; or the tensor with these replaced."""
    meta, size, strides = node.metas["self"], node["size"], node["stride"]
    shape = shape_of(node["self"])
    if not is_static([*size, *strides, *shape]) or not meta.is_contiguous():
        node.unsupported("a view by strides of a tensor that does not lie in one piece")
    positions = np.full((), node.get("storage_offset") or 0)
    for extent, stride in zip(size, strides):
        positions = positions[..., None] + np.arange(extent) * stride
    count = product(shape)
    flat = reshape(node["self"], (count,))
    if positions.size and int(positions.max()) >= count:
        node.unsupported("a view by strides beyond the tensor")
    if "scatter" not in node.target:
        return op.take(flat, Constant(positions), axis=0, mode="clip")
    source = np.arange(count)
    source[positions.reshape(-1)] = count + np.arange(positions.size)
    both = concatenate([flat, reshape(node.tensor("src"), (positions.size,))], 0)
    return reshape(op.take(both, Constant(source), axis=0, mode="clip"), shape)


@converts("aten.resize", "aten.resize_as")
def convert_resize(node: TorchNode) -> Expr:
    """As many of the elements as another shape has room for; behind them zeros, which PyTorch leaves unset."""
    have, want = product(shape_of(node["self"])), product(node.shape)
    if not is_static((have, want)):
        node.unsupported("a symbolic shape")
    flat = reshape(node["self"], (have,))
    if want > have:
        flat = concatenate([flat, op.zeros(shape=(want - have,), dtype=str(node.dtype))], 0)
    return reshape(slice_axis(flat, 0, 0, want), node.shape)


@converts("aten.cartesian_prod")
def convert_cartesian_product(node: TorchNode) -> Expr:
    """Every choice of one element of each vector, a row each."""
    values = node["tensors"]
    if len(values) == 1:
        return values[0]
    extents = [shape_of(value)[0] for value in values]
    columns = []
    for position, value in enumerate(values):
        shape = [1] * len(values)
        shape[position] = extents[position]
        columns.append(reshape(broadcast_to(reshape(value, shape), extents), (product(extents),)))
    return op.stack(columns, axis=1)


@converts("aten.tril", "aten.triu")
def convert_triangle(node: TorchNode) -> Expr:
    """The lower or upper triangle of matrices, zero elsewhere."""
    rows, columns = node.shape[-2:]
    if not is_static((rows, columns)):
        step = arange(columns) - op.expand_dims(arange(rows), axis=1)
        compare = op.less_equal if "tril" in node.target else op.greater_equal
        mask: Expr = compare(step, constant(node["diagonal"], "int64"))
    else:
        cut = np.tril if "tril" in node.target else np.triu
        mask = Constant(cut(np.ones((rows, columns), bool), node["diagonal"]))
    return op.where(mask, node["self"], constant(0, node.dtype))


@converts("aten.block_diag")
def convert_block_diag(node: TorchNode) -> Expr:
    """Matrices along the diagonal of one of zeros."""
    columns = node.shape[1]
    parts, left = [], 0
    for value in node["tensors"]:
        block = on_rank(node.as_tensor(value), 2)
        width = shape_of(block)[1]
        parts.append(op.nn.pad(block, pad_width=((0, 0), (left, columns - left - width))))
        left += width
    return concatenate([part for part in parts if shape_of(part)[0]] or parts[:1], 0)
