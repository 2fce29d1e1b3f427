"""ONNX operators whose result has a shape that is given by a value computed at run time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.runtime.host_ops.onnx_op import onnx_op, require_shape
from tilewright.support.dtype import DType

Array = np.ndarray[Any, Any]
Attrs = dict[str, Any]


def axis_list(attrs: Attrs, axes: Array | None) -> list[int] | None:
    """Axes from an input or, in older operator sets, from the attribute; None where neither is given."""
    if axes is not None:
        return [int(axis) for axis in axes.reshape(-1)]
    return attrs.get("axes")


@onnx_op("Reshape")
def reshape(attrs: Attrs, data: Array, shape: Array) -> Array:
    """`data` in `shape`, where 0 copies an extent (unless `allowzero`) and one -1 is derived."""
    target = [int(extent) for extent in shape.reshape(-1)]
    copied = [axis for axis, extent in enumerate(target) if extent == 0 and not attrs.get("allowzero", 0)]
    if copied and copied[-1] >= data.ndim:
        raise InputError(f"the shape {target} copies axis {copied[-1]}, which a tensor of shape {data.shape} lacks")
    if -1 in target and data.size == 0:  # what the extents that are not copied leave of the input's others
        others = [extent for axis, extent in enumerate(target) if axis not in copied and extent != -1]
        source = [extent for axis, extent in enumerate(data.shape) if axis not in copied]
        known = math.prod(others)
        target[target.index(-1)] = math.prod(source) // known if known else 0
    target = [data.shape[axis] if axis in copied else extent for axis, extent in enumerate(target)]
    try:
        return data.reshape(target)
    except ValueError:
        raise InputError(f"a tensor of shape {list(data.shape)} does not reshape to {target}") from None


@onnx_op("Stretched")
def stretched(attrs: Attrs, *values: Array) -> tuple[Array, ...]:
    """The values with their `axes`, from the back, as long as where they are broadcast against each other."""
    shape = np.broadcast_shapes(*[value.shape for value in values])
    return tuple(_repeated(value, shape, axes) for value, axes in zip(values, attrs["axes"]))


def _repeated(value: Array, shape: tuple[int, ...], axes: Sequence[int]) -> Array:
    sizes = list(value.shape)
    for axis in axes:
        sizes[axis] = shape[axis]
    return value if tuple(sizes) == value.shape else np.ascontiguousarray(np.broadcast_to(value, sizes))


@onnx_op("Expand")
def expand(attrs: Attrs, data: Array, shape: Array) -> Array:
    """`data` broadcast together with `shape`."""
    target = tuple(int(extent) for extent in shape)
    try:
        return np.asarray(np.broadcast_to(data, np.broadcast_shapes(data.shape, target)), order="C")
    except ValueError:
        raise InputError(f"a tensor of shape {list(data.shape)} does not expand to {list(target)}") from None


@onnx_op("Tile")
def tile(attrs: Attrs, data: Array, repeats: Array) -> Array:
    """`data` repeated along each axis."""
    require_shape("repeats", repeats, (data.ndim,))
    return np.tile(data, [int(count) for count in repeats])


@onnx_op("Slice")
def slice_(
    attrs: Attrs,
    data: Array,
    starts: Array | None = None,
    ends: Array | None = None,
    axes: Array | None = None,
    steps: Array | None = None,
) -> Array:
    """NumPy's slices along some axes; before opset 10 these are attributes."""
    if starts is None or ends is None:
        starts, ends = np.asarray(attrs["starts"]), np.asarray(attrs["ends"])
        axes = np.asarray(attrs["axes"]) if attrs.get("axes") else None
    picked: list[slice] = [slice(None)] * data.ndim
    chosen = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(chosen, starts.tolist(), ends.tolist(), strides, strict=True):
        extent = data.shape[axis]
        stop = None if step < 0 and end < -extent else end
        picked[axis] = slice(start, stop, step)
    return np.asarray(data[tuple(picked)], order="C")


@onnx_op("Pad")
def pad(attrs: Attrs, data: Array, pads: Array, value: Array | None = None, axes: Array | None = None) -> Array:
    """`data` with a margin; negative amounts cut off."""
    chosen = list(range(data.ndim)) if axes is None else [int(axis) % data.ndim for axis in axes]
    require_shape("pads", pads, (2 * len(chosen),))
    width = [(0, 0)] * data.ndim
    for position, axis in enumerate(chosen):
        width[axis] = (int(pads[position]), int(pads[position + len(chosen)]))
    sizes = [extent + low + high for (low, high), extent in zip(width, data.shape)]
    if min(sizes, default=0) < 0:
        raise InputError(f"pads {pads.reshape(-1).tolist()} leave nothing of a tensor of shape {list(data.shape)}")
    mode = attrs.get("mode", "constant")
    if mode == "constant":
        return _within(
            data, sizes, [low for low, _ in width], data.dtype.type(0) if value is None else value.reshape(())
        )
    cut = tuple(
        slice(max(-low, 0), extent - max(-high, 0)) for (low, high), extent in zip(width, data.shape, strict=True)
    )
    grown = [(max(low, 0), max(high, 0)) for low, high in width]
    return np.pad(data[cut], grown, mode=mode)


def _within(data: Array, sizes: Sequence[int], positions: Sequence[int], fill: Any) -> Array:
    """A tensor of `sizes` that has `data` at `positions`, as much of it as lies inside, and else `fill`."""
    result = np.full(sizes, fill, data.dtype)
    read, written = [], []
    for size, position, extent in zip(sizes, positions, data.shape):
        begin, end = max(position, 0), min(position + extent, size)
        written.append(slice(begin, max(begin, end)))
        read.append(slice(begin - position, max(begin, end) - position))
    result[tuple(written)] = data[tuple(read)]
    return result


@onnx_op("ConstantOfShape")
def constant_of_shape(attrs: Attrs, shape: Array) -> Array:
    """A tensor of `shape` filled with the attribute `value` (its `dtype` beside it)."""
    return np.full(
        [int(extent) for extent in shape], attrs.get("value", 0.0), DType(attrs.get("value_dtype", "float32")).numpy
    )


@onnx_op("Range")
def range_(attrs: Attrs, start: Array, limit: Array, delta: Array) -> Array:
    """start, start + delta, … below limit."""
    first, last, step = (value.reshape(-1)[0] for value in (start, limit, delta))
    if step == 0:
        raise InputError("a range in steps of 0 does not end")
    if start.dtype.kind in "iu":  # exact: the ends of 64 bits lie further apart than 64 bits hold
        count = max(-((int(first) - int(last)) // int(step)), 0)
    else:
        count = max(int(np.ceil((np.float64(last) - np.float64(first)) / np.float64(step))), 0)
    return (first + np.arange(count).astype(start.dtype) * step).astype(start.dtype)


@onnx_op("Squeeze")
def squeeze(attrs: Attrs, data: Array, axes: Array | None = None) -> Array:
    """Axes of extent 1 dropped."""
    chosen = axis_list(attrs, axes)
    return data.squeeze() if chosen is None else data.squeeze(tuple(chosen))


@onnx_op("Unsqueeze")
def unsqueeze(attrs: Attrs, data: Array, axes: Array | None = None) -> Array:
    """Axes of extent 1 put in."""
    return np.expand_dims(data, tuple(axis_list(attrs, axes) or ()))


@onnx_op("Split")
def split(attrs: Attrs, data: Array, sizes: Array | None = None) -> tuple[Array, ...]:
    """Parts along an axis, of the given sizes, which are an attribute before opset 13, or equal ones."""
    sizes = attrs.get("split") if sizes is None else sizes
    axis, parts = int(attrs.get("axis", 0)), int(attrs["outputs"])
    if sizes is None:
        size = -(-data.shape[axis] // parts)
        ends = [min(size * (index + 1), data.shape[axis]) for index in range(parts - 1)]
    else:
        given = [int(size) for size in sizes]
        if len(given) != parts or min(given) < 0 or sum(given) != data.shape[axis]:
            raise InputError(f"Split: {parts} parts of the sizes {given} are not the {data.shape[axis]} of axis {axis}")
        ends = np.cumsum(given).tolist()[:-1]
    return tuple(np.asarray(part, order="C") for part in np.split(data, ends, axis))


@onnx_op("Trilu")
def trilu(attrs: Attrs, data: Array, diagonal: Array | None = None) -> Array:
    """The upper or lower triangle."""
    k = 0 if diagonal is None else int(diagonal.reshape(-1)[0])
    return np.triu(data, k) if attrs.get("upper", 1) else np.tril(data, k)


def _accumulated(function: Any, attrs: Attrs, data: Array, axis: Array) -> Array:
    at = int(axis.reshape(-1)[0])
    turned = np.flip(data, at) if attrs.get("reverse", 0) else data
    result = function(turned, axis=at, dtype=np.float64 if _is_float(data) else data.dtype)
    if attrs.get("exclusive", 0) and result.shape[at]:
        neutral = np.full_like(np.take(result, [0], at), 1 if function is np.cumprod else 0)
        result = np.concatenate([neutral, np.delete(result, -1, at)], at)
    return np.asarray(np.flip(result, at) if attrs.get("reverse", 0) else result, data.dtype, order="C")


def _is_float(data: Array) -> bool:
    """True for floats, of which sums run in float64."""
    return data.dtype.kind == "f" or data.dtype.name == "bfloat16"


@onnx_op("CumSum")
def cumsum(attrs: Attrs, data: Array, axis: Array) -> Array:
    """Running sums along an axis."""
    return _accumulated(np.cumsum, attrs, data, axis)


@onnx_op("CumProd")
def cumprod(attrs: Attrs, data: Array, axis: Array) -> Array:
    """Running products along an axis."""
    return _accumulated(np.cumprod, attrs, data, axis)


@onnx_op("EyeLike")
def eye_like(attrs: Attrs, data: Array) -> Array:
    """Ones on diagonal `k` of a matrix of the shape of `data`."""
    rows, columns = data.shape
    return np.eye(rows, columns, int(attrs.get("k", 0))).astype(DType(attrs["result_dtype"]).numpy)


@onnx_op("Size")
def size(attrs: Attrs, data: Array) -> Array:
    """The number of elements."""
    return np.asarray(data.size, np.int64)


@onnx_op("Shape")
def shape(attrs: Attrs, data: Array) -> Array:
    """The shape, or a part of it."""
    return np.asarray(data.shape[attrs.get("start", 0) : attrs.get("end", data.ndim)], np.int64)


@onnx_op("Identity")
def identity(attrs: Attrs, value: Any) -> Any:
    """The value itself, of whatever kind."""
    return value


@onnx_op("Fail")
def fail(attrs: Attrs) -> Any:
    """Stops the model: what was found wrong with a branch when the model was imported, now that it is taken."""
    raise InputError(f"the inputs lead into a branch of the model that cannot run on them: {attrs['message']}")


@onnx_op("Concat")
def concat(attrs: Attrs, *values: Array) -> Array:
    """Tensors joined along an axis."""
    return np.concatenate(values, int(attrs.get("axis", 1)))


@onnx_op("Transpose")
def transpose(attrs: Attrs, data: Array) -> Array:
    """Axes permuted, by default in reverse."""
    return np.asarray(np.transpose(data, attrs.get("perm")), order="C")


@onnx_op("Flatten")
def flatten(attrs: Attrs, data: Array) -> Array:
    """Two axes: those before the attribute `axis` and those from it on."""
    axis = int(attrs.get("axis", 1))
    leading = data.shape[: axis if axis >= 0 else data.ndim + axis]
    trailing = data.shape[len(leading) :]
    return data.reshape(int(np.prod(leading, dtype=np.int64)), int(np.prod(trailing, dtype=np.int64)))


@onnx_op("Where")
def where(attrs: Attrs, condition: Array, x: Array, y: Array) -> Array:
    """Elements of x or y by the condition, broadcast."""
    return np.where(condition, x, y)


@onnx_op("CenterCropPad")
def center_crop_pad(attrs: Attrs, data: Array, shape: Array) -> Array:
    """Each axis cropped or padded with zeros, evenly at both ends, to the requested extent."""
    axes = attrs.get("axes")
    for axis, wanted in zip(range(data.ndim) if axes is None else axes, shape.tolist(), strict=True):
        extent = data.shape[axis]
        if wanted < extent:
            begin = (extent - wanted) // 2
            data = np.take(data, range(begin, begin + wanted), axis)
        elif wanted > extent:
            low = (wanted - extent) // 2
            width = [(0, 0)] * data.ndim
            width[axis] = (low, wanted - extent - low)
            data = np.pad(data, width)
    return data


def _bounds(x: Array) -> tuple[Any, Any]:
    """The largest and the smallest of no elements."""
    return DType(x.dtype).extremes()


def _log_sum_exp(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    x = x.astype(np.float64)
    peak = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, 0)
    total = np.log(np.sum(np.exp(x - peak), axis=axis, keepdims=True)) + peak
    return total if keepdims else np.squeeze(total, axis)


def _mean(x: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    """The mean; of integers rounded toward zero, and 0 of none of them, as kernels have it."""
    if x.dtype.kind not in "iu":
        return np.asarray(np.mean(x, axis=axis, keepdims=keepdims))
    total = np.sum(x, axis=axis, keepdims=keepdims)
    count = x.size // max(total.size, 1)
    quotient = np.abs(total) // max(count, 1)
    return np.where(total < 0, -quotient, quotient) if count else np.zeros_like(total)


_REDUCTIONS: dict[str, Any] = {
    "ReduceSum": lambda x, axis, keep: np.sum(x, axis=axis, keepdims=keep),
    "ReduceMean": _mean,
    "ReduceProd": lambda x, axis, keep: np.prod(x, axis=axis, keepdims=keep),
    "ReduceMax": lambda x, axis, keep: np.max(x, axis=axis, keepdims=keep, initial=_bounds(x)[0]),
    "ReduceMin": lambda x, axis, keep: np.min(x, axis=axis, keepdims=keep, initial=_bounds(x)[1]),
    "ReduceL1": lambda x, axis, keep: np.sum(np.abs(x), axis=axis, keepdims=keep),
    "ReduceL2": lambda x, axis, keep: np.sqrt(np.sum(np.square(x.astype(np.float64)), axis=axis, keepdims=keep)),
    "ReduceSumSquare": lambda x, axis, keep: np.sum(x * x, axis=axis, keepdims=keep),
    "ReduceLogSum": lambda x, axis, keep: np.log(np.sum(x.astype(np.float64), axis=axis, keepdims=keep)),
    "ReduceLogSumExp": _log_sum_exp,
}


def _register_reduction(name: str) -> None:
    @onnx_op(name)
    def reduction(attrs: Attrs, data: Array, axes: Array | None = None) -> Array:
        chosen = axis_list(attrs, axes) or ([] if attrs.get("noop_with_empty_axes", 0) else list(range(data.ndim)))
        wide = data.astype(np.float64) if _is_float(data) else data
        result = _REDUCTIONS[name](wide, tuple(chosen), bool(attrs.get("keepdims", 1)))
        return np.asarray(result).astype(data.dtype)


for _name in _REDUCTIONS:
    _register_reduction(_name)
