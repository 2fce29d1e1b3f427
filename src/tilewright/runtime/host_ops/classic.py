"""Host operators of classic Relay: shapes given by values (`dyn.*`), counts that depend on data, storage by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.registry import host_op
from tilewright.runtime.host_ops.resample import Axis, interpolated, nearest_indices, weighted_taps

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def _sizes(values: Array) -> list[int]:
    return [int(v) for v in values.reshape(-1)]


# ------------------------------------------------------------------------------------------------------------- dyn.*
@host_op("dyn.reshape")
def reshape(attrs: Attrs, data: Array, newshape: Array) -> Array:
    """`data` under the shape `newshape`; one size may be -1, and 0 keeps the input's size."""
    shape = [data.shape[d] if size == 0 and d < data.ndim else size for d, size in enumerate(_sizes(newshape))]
    try:
        return data.reshape(shape)
    except ValueError:
        raise InputError(f"dyn.reshape: {data.size} elements of shape {data.shape} do not fill {shape}") from None


@host_op("dyn.broadcast_to")
def broadcast_to(attrs: Attrs, data: Array, shape: Array) -> Array:
    """`data` repeated to `shape`."""
    try:
        return np.asarray(np.broadcast_to(data, _sizes(shape)), order="C")
    except ValueError:
        raise InputError(f"dyn.broadcast_to: {data.shape} does not broadcast to {_sizes(shape)}") from None


@host_op("dyn.expand_dims")
def expand_dims(attrs: Attrs, data: Array, axis: Array) -> Array:
    """`data` with `num_newaxis` axes of size 1 before `axis`."""
    at = int(axis.reshape(-1)[0])
    at = at + data.ndim + 1 if at < 0 else at
    return data.reshape(*data.shape[:at], *[1] * attrs["num_newaxis"], *data.shape[at:])


@host_op("dyn.squeeze")
def squeeze(attrs: Attrs, data: Array, axis: Array) -> Array:
    """`data` without the axes of size 1 in `axis`."""
    return np.squeeze(data, tuple(_sizes(axis)))


@host_op("dyn.full")
def full(attrs: Attrs, value: Array, shape: Array) -> Array:
    """A tensor of `shape` filled with `value`."""
    return np.full(_sizes(shape), value.reshape(()), attrs["dtype"] or value.dtype)


@host_op("dyn.ones")
def ones(attrs: Attrs, shape: Array) -> Array:
    """A tensor of `shape` filled with 1."""
    return np.ones(_sizes(shape), attrs["dtype"])


@host_op("dyn.zeros")
def zeros(attrs: Attrs, shape: Array) -> Array:
    """A tensor of `shape` filled with 0."""
    return np.zeros(_sizes(shape), attrs["dtype"])


@host_op("dyn.one_hot")
def one_hot(attrs: Attrs, indices: Array, on_value: Array, off_value: Array, depth: Array) -> Array:
    """`on_value` where a new axis of `depth` elements equals the index, else `off_value`."""
    count, axis = int(depth.reshape(-1)[0]), attrs["axis"]
    at = axis + indices.ndim + 1 if axis < 0 else axis
    positions = np.arange(count).reshape([-1 if d == at else 1 for d in range(indices.ndim + 1)])
    wanted = np.expand_dims(np.where(indices < 0, indices + count, indices), at)
    return np.where(wanted == positions, on_value, off_value).astype(attrs["dtype"])


@host_op("dyn.tile")
def tile(attrs: Attrs, data: Array, reps: Array) -> Array:
    """`data` repeated as a whole."""
    return np.tile(data, _sizes(reps))


@host_op("dyn.strided_slice")
def strided_slice(attrs: Attrs, data: Array, begin: Array, end: Array, strides: Array) -> Array:
    """Python slicing of the leading axes; with slice_mode "size" `end` holds sizes, -1 for all that is left."""
    parts = []
    for d, (first, last, step) in enumerate(zip(_sizes(begin), _sizes(end), _sizes(strides))):
        if attrs["slice_mode"] == "size":
            first = first + data.shape[d] if first < 0 else first
            last = data.shape[d] if last == -1 else first + last
            step = 1
        parts.append(slice(first, None if step < 0 and last < -data.shape[d] else last, step))
    return np.asarray(data[tuple(parts)], order="C")


@host_op("dyn.topk")
def topk(attrs: Attrs, data: Array, k: Array) -> Any:
    """The `k` largest or smallest elements along an axis, and where they are."""
    axis = attrs["axis"] % data.ndim
    size = data.shape[axis]
    count = int(k.reshape(-1)[0])
    count = size if count < 1 else min(count, size)
    if attrs["is_ascend"]:
        order = np.argsort(data, axis=axis, kind="stable")
    else:  # sorted backwards and read from its end, so that equal elements stay in order and no key is negated
        order = size - 1 - np.flip(np.argsort(np.flip(data, axis), axis=axis, kind="stable"), axis)
    order = np.take(order, np.arange(count), axis)
    values, indices = np.take_along_axis(data, order, axis), order.astype(attrs["dtype"])
    return {"both": (values, indices), "values": values, "indices": indices}[attrs["ret_type"]]


@host_op("dyn.nn.pad")
def pad(attrs: Attrs, data: Array, pad_width: Array, pad_value: Array) -> Array:
    """`data` with (before, after) elements added per axis."""
    widths = pad_width.reshape(-1, 2).tolist()
    if attrs["pad_mode"] == "constant":
        return np.pad(data, widths, constant_values=pad_value.reshape(()))
    return np.pad(data, widths, mode=attrs["pad_mode"])


@host_op("dyn.sparse_to_dense")
def sparse_to_dense(attrs: Attrs, indices: Array, values: Array, default: Array, shape: Array) -> Array:
    """A tensor of `shape` with `values` at the coordinates `indices`, else the default."""
    out = np.full(_sizes(shape), default.reshape(()), values.dtype)
    rows = indices.reshape(-1, out.ndim)
    for row, value in zip(rows, np.broadcast_to(values, len(rows))):
        out[tuple(row)] = value
    return out


def _resized(data: Array, axes: list[int], outs: list[int], attrs: Attrs) -> Array:
    """`data` resized along `axes`, one after the other."""
    names = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
    kind = names.get(str(attrs["method"]), str(attrs["method"]))
    mode = str(attrs["coordinate_transformation_mode"])
    result = data
    for axis, out in zip(axes, outs):
        position = Axis(data.shape[axis], out, out / data.shape[axis])
        if kind == "nearest_neighbor":
            default = "floor" if mode == "asymmetric" else "round_prefer_floor"
            given = str(attrs.get("rounding_method") or default)
            rounding = "round_prefer_ceil" if given == "round" else given
            result = np.take(result, nearest_indices(position, mode, rounding), axis)
        else:
            taps = weighted_taps(position, mode, kind, attrs.get("cubic_alpha", -0.5), False, False)
            result = interpolated(result.astype(np.float64), axis, *taps)
    return np.asarray(result, order="C").astype(data.dtype)


@host_op("dyn.image.resize2d")
def resize2d(attrs: Attrs, data: Array, size: Array) -> Array:
    """Images resized to `size` (height, width)."""
    axes = [attrs["layout"].index("H"), attrs["layout"].index("W")]
    return _resized(data, axes, _sizes(size), attrs)


def _upsampled(attrs: Attrs, data: Array, letters: str, scales: tuple[Array, ...]) -> Array:
    axes = [attrs["layout"].index(letter) for letter in letters]
    outs = [round(data.shape[axis] * float(scale)) for axis, scale in zip(axes, scales)]
    mode = attrs.get("coordinate_transformation_mode")
    mode = mode or ("align_corners" if attrs["align_corners"] else "asymmetric")
    return _resized(data, axes, outs, {**attrs, "coordinate_transformation_mode": mode})


@host_op("dyn.nn.upsampling")
def upsampling(attrs: Attrs, data: Array, scale_h: Array, scale_w: Array) -> Array:
    """Images made larger by factors."""
    return _upsampled(attrs, data, "HW", (scale_h, scale_w))


@host_op("dyn.nn.upsampling3d")
def upsampling3d(attrs: Attrs, data: Array, scale_d: Array, scale_h: Array, scale_w: Array) -> Array:
    """Volumes made larger by factors."""
    return _upsampled(attrs, data, "DHW", (scale_d, scale_h, scale_w))


# ------------------------------------------------------------------------------------------- counts that data decides
@host_op("argwhere")
def argwhere(attrs: Attrs, condition: Array) -> Array:
    """The coordinates of the elements that are not zero, one row each."""
    return np.argwhere(condition).astype(np.int32)


@host_op("unique")
def unique(attrs: Attrs, data: Array) -> tuple[Array, ...]:
    """(distinct values, where each came first, the way back, how many there are[, counts]), sorted or as they come."""
    values, first, inverse, counts = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
    if not attrs["sorted"]:
        order = np.argsort(first, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        values, first, inverse, counts = values[order], first[order], position[inverse.reshape(-1)], counts[order]
    result = (values, first.astype("int32"), inverse.reshape(-1).astype("int32"), np.array([values.size], "int32"))
    return (*result, counts.astype("int32")) if attrs["return_counts"] else result


@host_op("sparse_fill_empty_rows")
def sparse_fill_empty_rows(
    attrs: Attrs, indices: Array, values: Array, shape: Array, default: Array
) -> tuple[Array, Array, Array]:
    """A coordinate list in which each empty row got the default at column 0; and which rows were empty."""
    rows = int(shape[0])
    empty = np.ones(rows, bool)
    empty[indices[:, 0]] = False
    added = np.zeros((int(empty.sum()), indices.shape[1]), indices.dtype)
    added[:, 0] = np.nonzero(empty)[0]
    whole = np.concatenate([indices, added])
    filled = np.concatenate([values, np.full(len(added), default.reshape(()), values.dtype)])
    order = np.argsort(whole[:, 0], kind="stable")
    return whole[order], filled[order], empty


@host_op("segment_sum")
def segment_sum(attrs: Attrs, data: Array, segment_ids: Array) -> Array:
    """The sums of the rows that have the same number; rows behind the last number count not.

    Raises `InputError` for a number below 0 or beyond the last segment, and for more numbers than rows.
    """
    count = attrs["num_segments"]
    count = int(segment_ids.max(initial=-1)) + 1 if count is None else count
    if len(segment_ids) > len(data) or np.any((segment_ids < 0) | (segment_ids >= count)):
        raise InputError(f"segment_sum: {len(data)} rows need as many numbers or fewer, each from 0 below {count}")
    total = np.zeros((count, *data.shape[1:]), np.float64 if data.dtype.kind == "f" else data.dtype)
    np.add.at(total, segment_ids, data[: len(segment_ids)])
    return total.astype(data.dtype)


@host_op("sparse_reshape")
def sparse_reshape(attrs: Attrs, indices: Array, shape: Array, newshape: Array) -> tuple[Array, Array]:
    """The coordinates of a sparse tensor under another shape, and that shape with -1 worked out."""
    sizes = _sizes(newshape)
    if -1 in sizes:
        known = int(np.prod([size for size in sizes if size != -1]))
        sizes[sizes.index(-1)] = int(np.prod(shape)) // known if known else 0
    if sizes == _sizes(shape):
        return indices.copy(), np.array(sizes, newshape.dtype)
    flat = indices.astype(np.int64) @ _strides(_sizes(shape))  # coordinates beyond a size run on in the next row
    rows, inner = np.divmod(flat[:, None], _strides(sizes)), np.array(sizes[1:], np.int64)
    moved = rows[0] if not len(inner) else np.concatenate([rows[0][:, :1], rows[0][:, 1:] % inner], 1)
    return moved.astype(indices.dtype), np.array(sizes, newshape.dtype)


def _strides(sizes: list[int]) -> Array:
    """The stride of each axis in elements, in a row-major array."""
    return np.array([int(np.prod(sizes[axis + 1 :], dtype=np.int64)) for axis in range(len(sizes))], np.int64)


@host_op("nn.sparse_transpose")
def sparse_transpose(attrs: Attrs, data: Array, indices: Array, indptr: Array) -> tuple[Array, Array, Array]:
    """The transpose of a square matrix in compressed rows."""
    count = len(indptr) - 1
    rows = np.repeat(np.arange(count), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(indices, minlength=count))])
    return data[order], rows[order].astype(indices.dtype), starts.astype(indptr.dtype)


# --------------------------------------------------------------------------------------------------- storage by hand
@host_op("memory.alloc_storage")
def alloc_storage(attrs: Attrs, size: Array, shape: Array) -> Array:
    """A block of `size` bytes."""
    return np.empty(int(size), np.uint8)


@host_op("memory.alloc_tensor")
def alloc_tensor(attrs: Attrs, storage: Array, offset: Array, shape: Array) -> Array:
    """A tensor within a block, from the byte `offset`; its contents are not defined."""
    dtype, sizes = np.dtype(attrs["dtype"]), _sizes(shape)
    start, count = int(offset), int(np.prod(sizes))
    if start + count * dtype.itemsize > storage.nbytes:
        raise InputError(f"memory.alloc_tensor: {count * dtype.itemsize} bytes at {start} exceed {storage.nbytes}")
    return storage[start : start + count * dtype.itemsize].view(dtype).reshape(sizes)


@host_op("memory.kill")
def kill(attrs: Attrs, data: Array) -> tuple[()]:
    """Nothing: what no one refers to is freed by itself."""
    return ()


@host_op("memory.write")
def write(attrs: Attrs, *tensors: Array) -> tuple[()]:
    """Copy the second half of `tensors` into the first."""
    half = len(tensors) // 2
    for into, value in zip(tensors[:half], tensors[half:], strict=True):
        if into.shape != value.shape:
            raise InputError(f"memory.write: values of shape {value.shape} do not fit into shape {into.shape}")
        into[...] = value
    return ()


@host_op("vm.shape_of")
def shape_of(attrs: Attrs, data: Array) -> Array:
    """The shape of `data` as a vector."""
    return np.array(data.shape, attrs["dtype"] or "int64")


@host_op("vm.reshape_tensor")
def reshape_tensor(attrs: Attrs, data: Array, shape: Array) -> Array:
    """`data` under the shape `shape`, without a copy."""
    return data.reshape(_sizes(shape))
