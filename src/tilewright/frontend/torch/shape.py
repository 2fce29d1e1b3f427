"""Operators that arrange elements: shapes, axes, slices, joining, repeating, padding."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tilewright import tir
from tilewright.frontend import idioms
from tilewright.frontend.builders.elements import diagonals, meshgrid, rolled
from tilewright.frontend.builders.product import diagonal as diagonal_of
from tilewright.frontend.idioms import concatenate, constant, product, rank_of, reshape, shape_of, slice_axis, transpose
from tilewright.frontend.signature import Axis, Typed
from tilewright.frontend.torch.build import arange, element_type, extent_of, on_rank
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.selection import position_of_run, slice_of_run
from tilewright.frontend.torch.types import is_static
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.relay.ir.type import as_dim

_SAME = """alias clone contiguous detach detach_ lift_fresh lift_fresh_copy lift positive resolve_conj resolve_neg _conj
    conj_physical conj real view_as_real_copy alias_copy detach_copy _conj_physical copy_to_device"""
converts.functions({
    " ".join(f"aten.{name}" for name in _SAME.split()): lambda node: node["self"],
    "aten.copy": lambda node: idioms.broadcast_to(node.tensor("src"), node.shape),
    "aten.expand aten.expand_copy aten.expand_as aten.broadcast_to": lambda node: node.spread(node["self"]),
    "aten.broadcast_tensors": lambda node: [idioms.broadcast_to(value, node.shape) for value in node["tensors"]],
})  # fmt: skip


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


@converts("aten.permute", "aten.permute_copy")
def convert_permute(node: TorchNode, data: Expr, dims: Any) -> Expr:
    return transpose(data, [node.axis(axis) for axis in dims])


@converts("aten.transpose", "aten.transpose_", "aten.transpose_copy", "aten.swapaxes", "aten.swapdims", "aten.t",
          "aten.t_copy")  # fmt: skip
def convert_transpose(node: TorchNode, data: Expr, axis0: Any = 0, axis1: Any = 1) -> Expr:
    if rank_of(data) < 2:
        return data
    return idioms.swap_axes(data, node.axis(node.get("dim0", axis0)), node.axis(node.get("dim1", axis1)))


@converts("aten.numpy_T", "aten.mT", "aten.mH", "aten.adjoint", "aten.matrix_H")
def convert_matrix_transpose(node: TorchNode, data: Expr) -> Expr:
    """The last two axes exchanged; of numpy_T all."""
    return transpose(data, range(rank_of(data))[::-1]) if "numpy_T" in node.target else idioms.swap_axes(data)


@converts("aten.movedim", "aten.moveaxis")
def convert_movedim(node: TorchNode, data: Expr, source: Any, destination: Any) -> Expr:
    if not rank_of(data):
        return data
    of, to = ([node.axis(axis) for axis in ([one] if isinstance(one, int) else one)] for one in (source, destination))
    order = [axis for axis in range(rank_of(data)) if axis not in of]
    for position, axis in sorted(zip(to, of)):
        order.insert(position, axis)
    return transpose(data, order)


@converts("aten.slice", "aten.slice_copy")
def convert_slice(node: TorchNode, data: Expr, dim: Axis, step: int, start: Any = None, end: Any = None) -> Expr:
    """Elements from `start` to `end` of an axis in steps; negative positions count from the back."""
    if isinstance(start, Expr) or isinstance(end, Expr):
        return slice_of_run(node, data, dim, start, end, step)
    return slice_axis(data, dim, *_bounds(shape_of(data)[dim], start, end), step)


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
def convert_slice_scatter(
    node: TorchNode, data: Expr, src: Typed, dim: Axis, step: int, start: Any = None, end: Any = None
) -> Expr:
    extent = shape_of(data)[dim]
    if isinstance(start, Expr) or isinstance(end, Expr):
        bounds = [position_of_run(node, position, extent) for position in (start or 0, extent if end is None else end)]
        positions = _replaced(extent, bounds[0], bounds[1], step)
    else:
        begin, stop = _bounds(extent, start, end)
        if is_static((extent, begin, stop)):
            kept = np.arange(extent)
            kept[begin:stop:step] = extent + np.arange(len(range(begin, stop, step)))
            positions = Constant(kept)
        else:
            positions = _replaced(extent, extent_of(begin), extent_of(stop), step)
    return op.take(concatenate([data, src], dim), positions, axis=dim, mode="clip")


def _replaced(extent: Any, begin: Expr, stop: Expr, step: int) -> Expr:
    """0, 1 … below `extent`; every `step`-th position from `begin` to `stop`, which a run computes, on from
    `extent`.
    """
    positions = arange(extent)
    beyond = positions - begin
    within = op.logical_and(positions >= begin, positions < stop)
    within = op.logical_and(within, op.equal(op.floor_mod(beyond, step), constant(0, "int64")))
    return op.where(within, op.floor_divide(beyond, step) + extent_of(extent), positions)


@converts("aten.select_scatter")
def convert_select_scatter(data: Expr, dim: Axis, index: Any, src: Typed) -> Expr:
    extent = shape_of(data)[dim]
    position = as_dim(index + extent) if index < 0 else index
    row = op.expand_dims(src, axis=dim)
    parts = [slice_axis(data, dim, 0, position), row, slice_axis(data, dim, position + 1, extent)]
    return concatenate([part for part in parts if shape_of(part)[dim] != 0], dim)


@converts("aten.diagonal_scatter")
def convert_diagonal_scatter(node: TorchNode, data: Expr, offset: Any, dim1: Any, dim2: Any, src: Typed) -> Expr:
    shape = shape_of(data)
    if not is_static(shape):
        node.unsupported("a diagonal written into a tensor of symbolic shape")
    count = int(np.prod(shape, dtype=np.int64))
    positions = np.arange(count).reshape(shape)
    diagonal = np.diagonal(positions, offset, dim1, dim2)
    source = np.arange(count)
    source[diagonal.reshape(-1)] = count + np.arange(diagonal.size)
    both = concatenate([reshape(data, (count,)), reshape(src, (diagonal.size,))], 0)
    return op.take(both, Constant(source.reshape(shape)), axis=0, mode="clip")


@converts("aten.select", "aten.select_copy")
def convert_select(node: TorchNode, data: Expr, dim: Axis, index: Any) -> Expr:
    if isinstance(index, Expr):
        return op.take(data, position_of_run(node, index, shape_of(data)[dim]), axis=dim, mode="clip")
    if isinstance(index, int) and index < 0:
        index = as_dim(shape_of(data)[dim] + index)
    return idioms.index_axis(data, dim, index)


@converts("aten.unbind", "aten.unbind_copy")
def convert_unbind(data: Expr, dim: Axis) -> list[Expr]:
    return [idioms.index_axis(data, dim, position) for position in range(shape_of(data)[dim])]


@converts("aten.narrow", "aten.narrow_copy")
def convert_narrow(node: TorchNode, data: Expr, dim: Axis, start: Any, length: Any) -> Expr:
    """`length` elements of an axis from `start` on."""
    if isinstance(start, Expr):
        first = position_of_run(node, start, shape_of(data)[dim])
        return slice_of_run(node, data, dim, first, first + node.as_tensor(length, "int64"), 1)
    start = as_dim(shape_of(data)[dim] + start) if start < 0 else start
    return slice_axis(data, dim, start, as_dim(start + length))


@converts(
    "aten.split", "aten.split_with_sizes", "aten.split_copy", "aten.split_with_sizes_copy", "aten.chunk",
    "aten.tensor_split", "aten.unsafe_split", "aten.unsafe_split_with_sizes", "aten.unsafe_chunk",
    "aten.hsplit", "aten.vsplit", "aten.dsplit", "aten.array_split",
)  # fmt: skip
def convert_split(node: TorchNode) -> list[Expr]:
    """Parts of an axis one after another, as long as PyTorch found them to be."""
    rank = rank_of(node["self"])
    fixed = {"hsplit": 1 if rank > 1 else 0, "vsplit": 0, "dsplit": 2}.get(node.target.split(".")[1])
    axis = node.axis(node["dim"]) if fixed is None else fixed
    positions = node.get("tensor_indices_or_sections")
    if isinstance(positions, Expr):
        cuts = [None, *(idioms.index_axis(positions, 0, index) for index in range(len(node.value) - 1)), None]
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
    axis = node.axis(node["dim"], rank_of(kept[0]))
    kept = [value for value in kept if shape_of(value)[axis] != 0] or kept[:1]
    return concatenate(kept, axis)


@converts("aten.hstack", "aten.vstack", "aten.dstack", "aten.column_stack", "aten.row_stack")
def convert_stack_by_name(node: TorchNode) -> Expr:
    values = [node.as_tensor(value) for value in node["tensors"]]
    name = node.target.split(".")[1]
    if name == "hstack":
        values = [on_rank(value, 1) for value in values]
        return concatenate(values, min(rank_of(values[0]) - 1, 1))
    if name in ("vstack", "row_stack"):
        return concatenate([on_rank(value, 2) for value in values], 0)
    if name == "column_stack":
        return concatenate([reshape(v, (product(shape_of(v)), 1)) if rank_of(v) < 2 else v for v in values], 1)
    deep = [on_rank(value, 2) for value in values]
    return concatenate([op.expand_dims(v, axis=2) if rank_of(v) == 2 else v for v in deep], 2)


@converts("aten.stack")
def convert_stack(node: TorchNode) -> Expr:
    values = [node.as_tensor(value) for value in node["tensors"]]
    return op.stack(values, axis=node.axis(node["dim"], rank_of(values[0]) + 1))


@converts("aten.flip", "aten.fliplr", "aten.flipud")
def convert_flip(node: TorchNode, data: Expr, dims: Any = None) -> Expr:
    given = {"fliplr": [1], "flipud": [0]}.get(node.target.split(".")[1], dims)
    for axis in given if rank_of(data) else ():
        data = op.reverse(data, axis=node.axis(axis))
    return data


@converts("aten.roll")
def convert_roll(node: TorchNode, data: Expr, shifts: Any, dims: Any) -> Expr:
    """Axes rotated; without axes the tensor as one vector."""
    if not rank_of(data):
        return data
    if not list(dims):
        return reshape(rolled(idioms.as_vector(data), shifts[0], 0), shape_of(data))
    for shift, axis in zip(shifts, dims):
        data = rolled(data, shift, node.axis(axis))
    return data


@converts("aten.rot90")
def convert_rot90(node: TorchNode, data: Expr, k: Any, dims: Any) -> Expr:
    """A quarter turn in the plane of two axes, `k` times."""
    first, second = (node.axis(axis) for axis in dims)
    for _ in range(k % 4):
        data = idioms.swap_axes(op.reverse(data, axis=second), first, second)
    return data


@converts("aten.repeat", "aten.tile")
def convert_repeat(node: TorchNode, data: Expr, repeats: Any = None, dims: Any = None) -> Expr:
    counts = list(repeats or dims or [])
    if any(isinstance(count, int) and count == 0 for count in counts):
        return op.zeros(shape=node.shape, dtype=str(node.dtype))
    counts = [1] * (rank_of(data) - len(counts)) + counts
    data = on_rank(data, len(counts))
    return data if all(count == 1 for count in counts) else op.tile(data, reps=tuple(counts))


@converts("aten.repeat_interleave.self_int")
def convert_repeat_interleave(data: Expr, repeats: Any, dim: Axis | None = None) -> Expr:
    data, dim = idioms.along_axis(data, dim)
    return op.repeat(data, repeats=repeats, axis=dim)


@converts("aten.diagonal", "aten.diagonal_copy", "aten.linalg_diagonal")
def convert_diagonal(node: TorchNode, offset: Any, dim1: Any, dim2: Any) -> Expr:
    data = node["A"] if "A" in node.arguments else node["self"]
    first, second = (node.axis(axis, rank_of(data)) for axis in (dim1, dim2))
    rest = [axis for axis in range(rank_of(data)) if axis not in (first, second)]
    moved = transpose(data, [*rest, first, second])
    if not is_static(shape_of(moved)[-2:]):
        node.unsupported("the diagonal of axes of symbolic extent")
    return diagonal_of(moved, offset)


@converts("aten.diag_embed", "aten.diag")
def convert_diag_embed(node: TorchNode, data: Expr, diagonal: Any = 0) -> Expr:
    """Vectors on a diagonal of matrices of zeros; of `diag` of a matrix its diagonal."""
    offset = node.get("offset", diagonal)
    if node.target.startswith("aten.diag.") and rank_of(data) == 2:
        return diagonal_of(data, offset)
    rank, size = len(node.shape), shape_of(data)[-1] + abs(offset)
    mask = np.eye(size, k=offset, dtype=bool)
    positions = np.zeros((size, size), np.int64)
    positions[mask] = np.arange(shape_of(data)[-1])
    spread = op.take(data, Constant(positions), axis=rank_of(data) - 1, mode="clip")
    made = op.where(Constant(mask), spread, constant(0, node.dtype))
    first, second = (node.axis(node.get(name, position), rank) for name, position in (("dim1", -2), ("dim2", -1)))
    order = list(range(rank - 2))
    for position, axis in sorted([(first, rank - 2), (second, rank - 1)]):
        order.insert(position, axis)
    return transpose(made, order)


@converts("aten.unfold", "aten.unfold_copy")
def convert_unfold(node: TorchNode, data: Expr, dimension: Axis, size: Any, step: Any) -> Expr:
    if not rank_of(data):
        return reshape(data, node.shape)
    count = as_dim((shape_of(data)[dimension] - size) // step + 1)
    first: Expr = op.expand_dims(arange(count), axis=1) * step
    if isinstance(count, int):
        first = Constant(np.arange(count)[:, None] * step)
    taken = op.take(data, first + constant(np.arange(size), "int64"), axis=dimension, mode="clip")
    return idioms.move_axis(taken, dimension + 1, rank_of(taken) - 1)


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
    values = node["tensors"]
    if len(values) == 1:
        return values[0]
    return op.stack([idioms.as_vector(grid) for grid in meshgrid(values)], axis=1)


@converts("aten.tril", "aten.triu")
def convert_triangle(node: TorchNode, diagonal: Any) -> Expr:
    rows, columns = node.shape[-2:]
    if not is_static((rows, columns)):
        step = arange(columns) - op.expand_dims(arange(rows), axis=1)
        compare = op.less_equal if "tril" in node.target else op.greater_equal
        mask: Expr = compare(step, constant(diagonal, "int64"))
        return op.where(mask, node["self"], constant(0, node.dtype))
    lower = "tril" in node.target
    return diagonals(node["self"], None if lower else diagonal, diagonal if lower else None)


@converts("aten.block_diag")
def convert_block_diag(node: TorchNode) -> Expr:
    columns = node.shape[1]
    parts, left = [], 0
    for value in node["tensors"]:
        block = on_rank(node.as_tensor(value), 2)
        width = shape_of(block)[1]
        parts.append(op.nn.pad(block, pad_width=((0, 0), (left, columns - left - width))))
        left += width
    return concatenate([part for part in parts if shape_of(part)[0]] or parts[:1], 0)
