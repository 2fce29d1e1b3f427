"""Operators about positions: advanced indexing, index arithmetic, sequences of several lengths, diagonals, grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.ir import attributes as attr
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr, Tuple, TupleGetItem, const
from tilewright.relay.ir.type import TensorType, TupleType, Type
from tilewright.relay.op import reduce, tensor, transform
from tilewright.relay.op.common import (
    Types,
    broadcast_shapes,
    call,
    check_axis,
    known_size,
    require,
    require_same_dtype,
    same_dims,
    tensors,
    tuple_of_tensors,
)
from tilewright.relay.op.common import tensor as tensor_of
from tilewright.relay.op.composite import register_composite, type_of_expansion
from tilewright.relay.op.gather import gather_nd, take
from tilewright.relay.op.scatter import scatter_nd
from tilewright.topi.shapes import slice_bounds, smaller


def _shape(expr: Expr) -> tuple[Any, ...]:
    return tensor_of(expr.checked_type).shape


def _dtype(expr: Expr) -> str:
    return str(tensor_of(expr.checked_type).dtype)


def fields(expr: Expr) -> list[Expr]:
    """The fields of a tuple-valued expression whose type is known, each with its type."""
    if isinstance(expr, Tuple):
        return list(expr.fields)
    kind = expr.checked_type
    assert isinstance(kind, TupleType)
    parts: list[Expr] = [TupleGetItem(expr, i) for i in range(len(kind.fields))]
    for part, type_ in zip(parts, kind.fields, strict=True):
        part.set_inferred_type(type_)
    return parts


# -------------------------------------------------------------------------------------------------------- adv_index
def _adv_index_type(types: Types, attrs: Attrs) -> Type:
    data, *indices = tuple_of_tensors(types[0])
    require(0 < len(indices) <= data.ndim, f"{len(indices)} indices for {data.ndim} dimensions")
    require(all(t.dtype.is_int for t in indices), "the indices must be integers; cast them first")
    return TensorType((*broadcast_shapes(*[t.shape for t in indices]), *data.shape[len(indices) :]), data.dtype)


def _adv_index(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    data, *indices = fields(args[0])
    shape = broadcast_shapes(*[_shape(index) for index in indices])
    whole = [transform.broadcast_to(tensor.cast(index, "int64"), shape) for index in indices]
    return gather_nd(data, transform.stack(whole, 0))


register_composite(
    "adv_index",
    num_inputs=1,
    type_rule=_adv_index_type,
    expansion=_adv_index,
    reference=lambda _attrs, data, *indices: data[tuple(np.broadcast_arrays(*indices))],
)


def adv_index(inputs: Sequence[Expr]) -> Call:
    """data[indices[0], indices[1], …] as in NumPy, from the tuple (data, indices …) of tensors that broadcast."""
    return call("adv_index", Tuple(inputs))


# -------------------------------------------------------------------------------------------------- index arithmetic
def _invert_permutation_type(types: Types, _attrs: Attrs) -> Type:
    data = tensor_of(types[0])
    require(data.ndim == 1 and data.dtype.is_int, f"a vector of integers is needed, not {data}")
    return data


def _invert_permutation(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    size, dtype = _shape(args[0])[0], _dtype(args[0])
    zeros, positions = tensor.zeros((size,), dtype), tensor.arange(size, dtype=dtype)
    return scatter_nd(zeros, transform.expand_dims(args[0], 0), positions)


register_composite(
    "invert_permutation",
    num_inputs=1,
    type_rule=_invert_permutation_type,
    expansion=_invert_permutation,
    reference=lambda _attrs, x: np.argsort(x).astype(x.dtype),
)


def invert_permutation(data: Expr) -> Call:
    """The permutation p with p[data[i]] = i."""
    return call("invert_permutation", data)


def _unravel(args: Sequence[Expr], _attrs: Attrs) -> Expr:
    """Rows of coordinates: each is the index, divided by what follows and modulo its own size."""
    indices, shape = args
    count = known_size(_shape(shape)[0], "the length of the shape")
    rows = []
    for d in range(count):
        after = transform.strided_slice(shape, (d + 1,), (count,))
        inner = reduce.prod(after) if d + 1 < count else const(np.asarray(1, _dtype(shape)))
        size = transform.reshape(transform.strided_slice(shape, (d,), (d + 1,)), ())
        rows.append(tensor.floor_mod(tensor.floor_divide(indices, inner), size))
    return transform.stack(rows, 0)


def _unravel_type(types: Types, attrs: Attrs) -> Type:
    indices, shape = tensors(types)
    require_same_dtype(indices, shape)
    require(indices.dtype.is_int and shape.ndim == 1, f"integers and a shape vector are needed, not {indices}, {shape}")
    return type_of_expansion(_unravel, types, attrs)


register_composite(
    "unravel_index",
    num_inputs=2,
    type_rule=_unravel_type,
    expansion=_unravel,
    reference=lambda _attrs, indices, shape: np.stack(np.unravel_index(indices, shape)).astype(indices.dtype),
)


def unravel_index(indices: Expr, shape: Expr) -> Call:
    """The coordinates, one row a dimension, of flat `indices` into an array of `shape` (a vector)."""
    return call("unravel_index", indices, shape)


def _ndarray_size(args: Sequence[Expr], attrs: Attrs) -> Expr:
    kind = tensor_of(args[0].checked_type)
    if kind.is_static:
        return const(kind.size, attrs["dtype"])
    ones = transform.broadcast_to(const(1, "int64"), kind.shape)  # counted, as a graph without a host does it too
    return tensor.cast(reduce.sum(ones), attrs["dtype"])


register_composite(
    "ndarray_size",
    num_inputs=1,
    expansion=_ndarray_size,
    reference=lambda attrs, x: np.asarray(x.size, TensorType((), attrs["dtype"]).dtype.numpy),
    attributes={"dtype": attr.dtype("int32")},
)


def ndarray_size(data: Expr, dtype: str = "int32") -> Call:
    """The number of elements of `data`, a scalar."""
    return call("ndarray_size", data, dtype=str(dtype))


# --------------------------------------------------------------------------------------------------------- meshgrid
def _meshgrid_type(types: Types, attrs: Attrs) -> Type:
    parts = tuple_of_tensors(types[0])
    require_same_dtype(*parts)
    require(all(t.ndim <= 1 for t in parts), "vectors (or scalars) are needed")
    require(attrs["indexing"] in ("ij", "xy"), f"indexing {attrs['indexing']!r}; known: ij, xy")
    return type_of_expansion(_meshgrid, types, attrs)


def _meshgrid(args: Sequence[Expr], attrs: Attrs) -> Expr:
    parts = fields(args[0])
    positions = list(range(len(parts)))
    if attrs["indexing"] == "xy" and len(parts) >= 2:
        positions[0], positions[1] = 1, 0
    sizes = [math.prod(_shape(part)) for part in parts]
    shape = [0] * len(parts)
    for position, size in zip(positions, sizes):
        shape[position] = size
    grids = [
        transform.broadcast_to(
            transform.reshape(part, [size if d == position else 1 for d in range(len(parts))]), shape
        )
        for part, position, size in zip(parts, positions, sizes)
    ]
    return Tuple(grids)


register_composite(
    "meshgrid",
    num_inputs=1,
    type_rule=_meshgrid_type,
    expansion=_meshgrid,
    reference=lambda attrs, *parts: tuple(
        np.asarray(grid, order="C") for grid in np.meshgrid(*parts, indexing=attrs["indexing"])
    ),
    attributes={"indexing": attr.text("ij")},
)


def meshgrid(data: Sequence[Expr], indexing: str = "ij") -> Call:
    """Grids of coordinates from vectors, one tensor each; ``"xy"`` swaps the first two dimensions."""
    return call("meshgrid", Tuple(data), indexing=indexing)


# -------------------------------------------------------------------------------------------------------- sequences
def _sequence_mask_type(types: Types, attrs: Attrs) -> Type:
    data, lengths = tensors(types)
    require(attrs["axis"] in (0, 1) and data.ndim >= 2, "axis 0 or 1 of at least two dimensions is the time")
    batch = data.shape[1 - attrs["axis"]]
    require(
        same_dims(lengths.shape, (batch,)), f"one length for each of {batch} sequences is needed, not {lengths.shape}"
    )
    return data


def _sequence_mask(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, lengths = args
    shape, axis = _shape(data), attrs["axis"]
    steps = transform.reshape(
        tensor.arange(shape[axis], dtype=_dtype(lengths)), [shape[axis] if d == axis else 1 for d in range(len(shape))]
    )
    ends = transform.reshape(lengths, [shape[1 - axis] if d == 1 - axis else 1 for d in range(len(shape))])
    return tensor.where(tensor.less(steps, ends), data, const(np.asarray(attrs["mask_value"], _numpy(data))))


def _numpy(expr: Expr) -> Any:
    return tensor_of(expr.checked_type).dtype.numpy


def _sequence_mask_reference(attrs: Attrs, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    axis = attrs["axis"]
    steps = np.arange(x.shape[axis]).reshape((-1, 1) if axis == 0 else (1, -1))
    kept = steps < np.expand_dims(lengths, axis)
    return np.where(kept.reshape(kept.shape + (1,) * (x.ndim - 2)), x, np.asarray(attrs["mask_value"], x.dtype))


register_composite(
    "sequence_mask",
    num_inputs=2,
    type_rule=_sequence_mask_type,
    expansion=_sequence_mask,
    reference=_sequence_mask_reference,
    attributes={"mask_value": attr.number(0), "axis": attr.integer(0)},
)


def sequence_mask(data: Expr, valid_length: Expr, mask_value: float = 0, axis: int = 0) -> Call:
    """`data` with `mask_value` behind the valid length of each sequence; `axis`, 0 or 1, is the time."""
    return call("sequence_mask", data, valid_length, mask_value=float(mask_value), axis=axis)


def _reverse_sequence_type(types: Types, attrs: Attrs) -> Type:
    data, lengths = tensors(types)
    seq, batch = (check_axis(attrs[name], data.ndim) for name in ("seq_axis", "batch_axis"))
    require(seq != batch, "seq_axis and batch_axis are the same axis")
    require(lengths.dtype.is_int, f"the lengths must be integers, not {lengths.dtype}")
    count = data.shape[batch]
    require(
        same_dims(lengths.shape, (count,)), f"one length for each of {count} sequences is needed, not {lengths.shape}"
    )
    return data


def _reverse_sequence(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """Both axes are indexed: step t of sequence b comes from lengths[b] - 1 - t while t is within the length.

    A length beyond the last step is that of the whole sequence.
    """
    data, lengths = args
    shape = _shape(data)
    seq, batch = attrs["seq_axis"] % len(shape), attrs["batch_axis"] % len(shape)
    front = [seq, batch, *[d for d in range(len(shape)) if d not in (seq, batch)]]
    steps, count = shape[seq], shape[batch]
    ends = tensor.minimum(transform.reshape(tensor.cast(lengths, "int64"), (1, count)), _whole_length(steps))
    step = transform.reshape(tensor.arange(steps, dtype="int64"), (steps, 1))
    source = tensor.where(tensor.less(step, ends), ends - const(np.int64(1)) - step, step)
    own = transform.broadcast_to(transform.reshape(tensor.arange(count, dtype="int64"), (1, count)), (steps, count))
    turned = gather_nd(transform.transpose(data, front), transform.stack([source, own], 0))
    return transform.transpose(turned, [front.index(d) for d in range(len(shape))])


def _whole_length(steps: Any) -> Expr:
    """The number of steps, which may not be known before the model runs, as a scalar of int64."""
    if isinstance(steps, int):
        return const(np.int64(steps))
    last = take(tensor.arange(steps, dtype="int64"), const(np.int64(-1)), 0, "from_back")
    return last + const(np.int64(1))


def _reverse_sequence_reference(attrs: Attrs, x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    out = np.moveaxis(x.copy(), (attrs["batch_axis"], attrs["seq_axis"]), (0, 1))
    for row, given in zip(out, lengths):
        length = max(0, int(given))
        row[:length] = row[:length][::-1].copy()
    return np.asarray(np.moveaxis(out, (0, 1), (attrs["batch_axis"], attrs["seq_axis"])), order="C")


register_composite(
    "reverse_sequence",
    num_inputs=2,
    type_rule=_reverse_sequence_type,
    expansion=_reverse_sequence,
    reference=_reverse_sequence_reference,
    attributes={"seq_axis": attr.integer(1), "batch_axis": attr.integer(0)},
)


def reverse_sequence(data: Expr, seq_lengths: Expr, seq_axis: int = 1, batch_axis: int = 0) -> Call:
    """Each sequence turned around up to its length; what is behind stays."""
    return call("reverse_sequence", data, seq_lengths, seq_axis=seq_axis, batch_axis=batch_axis)


# ---------------------------------------------------------------------------------------------------------- updates
def _strided_set_type(types: Types, attrs: Attrs) -> Type:
    data, values = tensors(types)
    require_same_dtype(data, values)
    bounds = slice_bounds(data.shape, attrs["begin"], attrs["end"], attrs["strides"], None)
    wanted = tuple([count for _, _, count in bounds])
    require(same_dims(values.shape, wanted), f"the slice takes values of shape {wanted}, not {values.shape}")
    return data


def _strided_set(args: Sequence[Expr], attrs: Attrs) -> Expr:
    """Each element reads the value of its position in the slice, or itself; positions outside of it are not used."""
    data, values = args
    shape = _shape(data)
    inside: Expr | None = None
    moved: Expr = values
    for axis, (first, step, count) in enumerate(
        slice_bounds(shape, attrs["begin"], attrs["end"], attrs["strides"], None)
    ):
        if count == 0:
            return tensor.copy(data)
        positions = (np.arange(shape[axis]) - first) // step
        hit = (positions >= 0) & (positions < count) & (first + positions * step == np.arange(shape[axis]))
        moved = take(moved, Constant(np.clip(positions, 0, count - 1)), axis=axis)
        if not hit.all():
            mask = Constant(hit.reshape([-1 if d == axis else 1 for d in range(len(shape))]))
            inside = mask if inside is None else tensor.logical_and(inside, mask)
    return moved if inside is None else tensor.where(inside, moved, data)


def _strided_set_reference(attrs: Attrs, x: np.ndarray, values: np.ndarray) -> np.ndarray:
    out = x.copy()
    bounds = slice_bounds(x.shape, attrs["begin"], attrs["end"], attrs["strides"], None)
    out[np.ix_(*[first + step * np.arange(count) for first, step, count in bounds])] = values
    return out


register_composite(
    "strided_set",
    num_inputs=2,
    type_rule=_strided_set_type,
    expansion=_strided_set,
    reference=_strided_set_reference,
    attributes={"begin": attr.integers(), "end": attr.integers(), "strides": attr.optional(attr.integers())},
)


def strided_set(
    data: Expr, v: Expr, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None = None
) -> Call:
    """`data` with the values `v` in place of the strided slice of the leading axes."""
    return call("strided_set", data, v, begin=begin, end=end, strides=strides)


def _matrix_set_diag_type(types: Types, attrs: Attrs) -> Type:
    data, diagonal = tensors(types)
    require_same_dtype(data, diagonal)
    require(data.ndim >= 2, "matrices are needed")
    low, high = _diagonals(attrs)
    require(low <= high, f"the diagonals {attrs['k']} do not rise")
    rows, columns = data.shape[-2:]
    longest = smaller(rows + min(high, 0), columns - max(low, 0))
    wanted = (*data.shape[:-2], *([high - low + 1] if low != high else []), longest)
    require(same_dims(diagonal.shape, wanted), f"diagonals of shape {wanted} are needed, not {diagonal.shape}")
    return data


def _diagonals(attrs: Attrs) -> tuple[int, int]:
    k = attrs["k"]
    return (k, k) if isinstance(k, int) else (k[0], k[-1])


def _diagonal_positions(shape: Sequence[int], attrs: Attrs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every element of a matrix: is it set, which diagonal (counted from the highest) and which position of it."""
    low, high = _diagonals(attrs)
    rows, columns = shape[-2:]
    i, j = np.indices((rows, columns))
    k = j - i
    longest = min(rows + min(high, 0), columns - max(low, 0))
    length = np.minimum(rows + np.minimum(k, 0), columns - np.maximum(k, 0))
    above, below = attrs["align"].split("_")
    to_right = np.where(k >= 0, above == "RIGHT", below == "RIGHT")
    position = np.minimum(i, j) + np.where(to_right, longest - length, 0)
    return (k >= low) & (k <= high), np.clip(high - k, 0, high - low), np.clip(position, 0, longest - 1)


def _matrix_set_diag(args: Sequence[Expr], attrs: Attrs) -> Expr:
    data, diagonal = args
    shape = _shape(data)
    hit, which, position = _diagonal_positions(shape, attrs)
    low, high = _diagonals(attrs)
    longest = _shape(diagonal)[-1]
    flat = transform.reshape(diagonal, (*shape[:-2], (high - low + 1) * longest))
    spread = take(flat, Constant((which * longest + position).astype("int64")), axis=len(shape) - 2)
    return tensor.where(Constant(hit), spread, data)


def _matrix_set_diag_reference(attrs: Attrs, x: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
    out = x.copy()
    low, high = _diagonals(attrs)
    lines = diagonal if low != high else diagonal[..., None, :]
    above, below = attrs["align"].split("_")
    for k in range(low, high + 1):
        length = min(x.shape[-2] + min(k, 0), x.shape[-1] - max(k, 0))
        line = lines[..., high - k, :]
        part = line[..., -length:] if (above if k >= 0 else below) == "RIGHT" else line[..., :length]
        i = np.arange(length)
        out[..., i + max(-k, 0), i + max(k, 0)] = part
    return out


register_composite(
    "matrix_set_diag",
    num_inputs=2,
    type_rule=_matrix_set_diag_type,
    expansion=_matrix_set_diag,
    reference=_matrix_set_diag_reference,
    attributes={"k": attr.integers_or_one(0), "align": attr.text("RIGHT_LEFT")},
)


def matrix_set_diag(data: Expr, diagonal: Expr, k: int | Sequence[int] = 0, align: str = "RIGHT_LEFT") -> Call:
    """Matrices with the diagonals `k` (one, or from lowest to highest) replaced.

    `diagonal` holds them from the highest to the lowest; `align` says where those above and those below the main one,
    if shorter, are written: LEFT or RIGHT.
    """
    return call("matrix_set_diag", data, diagonal, k=k, align=align)
