"""Operations of `keras.ops` that make one number of many, or put numbers in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.idioms import (
    cast,
    constant,
    dtype_of,
    is_float,
    like,
    product,
    rank_of,
    reshape,
    shape_of,
)
from tilewright.frontend.keras.layer import Operation, as_float, tensors
from tilewright.frontend.keras.registry import operation
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType


def axes_of(value: Expr, axis: Any) -> tuple[int, ...]:
    """Axes counted from the front; all for None."""
    rank = rank_of(value)
    if axis is None:
        return tuple(range(rank))
    return tuple(int(one) % rank for one in (axis if isinstance(axis, list | tuple) else [axis]))


def _summable(value: Expr) -> Expr:
    """Truth values and short integers as the integers that they are summed in."""
    dtype = dtype_of(value)
    if dtype in ("bool", "int8", "int16"):
        return cast(value, "int32")
    return cast(value, "uint32") if dtype in ("uint8", "uint16") else value


@operation("Sum", "Prod")
def convert_sum(item: Operation, x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Expr:
    value = _summable(tensors(x)[0])
    value = cast(value, str(dtype)) if dtype else value
    function = op.sum if item.class_name == "Sum" else op.prod
    return function(value, axis=axes_of(value, axis), keepdims=keepdims)


@operation("Max", "Min", "Amax", "Amin")
def convert_extreme(item: Operation, x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Expr:
    (value,) = tensors(x)
    largest = "ax" in item.class_name
    axes = axes_of(value, axis)
    if dtype_of(value) == "bool":
        made: Expr = (op.any if largest else op.all)(value, axis=axes, keepdims=keepdims)
    else:
        made = (op.max if largest else op.min)(value, axis=axes, keepdims=keepdims)
    if initial is None:
        return made
    return (op.maximum if largest else op.minimum)(made, like(initial, made))


@operation("Ptp")
def convert_ptp(_item: Operation, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
    (value,) = tensors(x)
    axes = axes_of(value, axis)
    return op.max(value, axis=axes, keepdims=keepdims) - op.min(value, axis=axes, keepdims=keepdims)


@operation("Any", "All")
def convert_any(item: Operation, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
    (value,) = tensors(x)
    value = value if dtype_of(value) == "bool" else op.not_equal(value, 0)
    return (op.any if item.class_name == "Any" else op.all)(value, axis=axes_of(value, axis), keepdims=keepdims)


@operation("CountNonzero")
def convert_count_nonzero(_item: Operation, x: Any, axis: Any = None) -> Expr:
    (value,) = tensors(x)
    return op.sum(cast(op.not_equal(value, 0), "int32"), axis=axes_of(value, axis))


@operation("Mean", "Var", "Std")
def convert_moment(item: Operation, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
    value = as_float(x)
    axes = axes_of(value, axis)
    wide = cast(value, "float32") if dtype_of(value) in ("float16", "bfloat16") else value
    if item.class_name == "Mean":
        return cast(op.mean(wide, axis=axes, keepdims=keepdims), dtype_of(value))
    made = _variance(wide, axes, keepdims)
    return cast(op.sqrt(made) if item.class_name == "Std" else made, dtype_of(value))


def _variance(value: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    centred = value - op.mean(value, axis=axes, keepdims=True)
    return op.mean(centred * centred, axis=axes, keepdims=keepdims)


@operation("Moments")
def convert_moments(
    _item: Operation, x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False
) -> list[Expr]:
    value = as_float(x)
    over = axes_of(value, axes)
    return [op.mean(value, axis=over, keepdims=keepdims), _variance(value, over, keepdims)]


@operation("Average")
def convert_average(_item: Operation, x: Any, axis: Any = None, weights: Any = None) -> Expr:
    if weights is None:
        value = as_float(x)
        return op.mean(value, axis=axes_of(value, axis))
    value, share = tensors(x, weights, at_least_float=True)
    axes = axes_of(value, axis)
    if rank_of(share) == 1 and rank_of(value) > 1:
        shape = [1] * rank_of(value)
        shape[axes[0]] = shape_of(share)[0]
        share = reshape(share, shape)
    wide = op.broadcast_to(share, shape=shape_of(value))
    return op.sum(value * wide, axis=axes) / op.sum(wide, axis=axes)


@operation("Logsumexp")
def convert_logsumexp(_item: Operation, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
    value = as_float(x)
    return functions.log_sum_exp(value, axes_of(value, axis), keepdims)


@operation("Norm")
def convert_norm(item: Operation, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Expr:
    value = as_float(x)
    axes = axes_of(value, axis)
    size = op.abs(value)
    kind = float(ord) if ord not in (None, "fro", "nuc") else ord
    if kind in (None, "fro") or (kind == 2 and len(axes) == 1):
        return op.sqrt(op.sum(value * value, axis=axes, keepdims=keepdims))
    if len(axes) == 1 and isinstance(kind, float):
        return _vector_norm(size, kind, axes, keepdims)
    if len(axes) == 2 and kind in (1.0, -1.0, float("inf"), float("-inf")):
        first, second = axes if abs(kind) == 1 else axes[::-1]
        sums = op.sum(size, axis=(first,), keepdims=True)
        made = (op.max if kind > 0 else op.min)(sums, axis=(second,), keepdims=True)
        return made if keepdims else op.squeeze(made, axis=tuple(sorted(axes)))
    item.unsupported(f"the norm ord={ord!r} over {len(axes)} axes")


def _vector_norm(size: Expr, kind: float, axes: tuple[int, ...], keepdims: bool) -> Expr:
    if abs(kind) == float("inf"):
        return (op.max if kind > 0 else op.min)(size, axis=axes, keepdims=keepdims)
    if kind == 0:
        return op.sum(cast(op.not_equal(size, 0), dtype_of(size)), axis=axes, keepdims=keepdims)
    total = op.sum(op.power(size, like(kind, size)), axis=axes, keepdims=keepdims)
    return op.power(total, like(1 / kind, total))


# ---------------------------------------------------------------------------------------------------- without numbers
@operation("Nansum", "Nanprod", "Nanmax", "Nanmin", "Nanmean", "Nanvar", "Nanstd")
def convert_nan_reduction(item: Operation, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
    (value,) = tensors(x)
    kind = item.class_name.removeprefix("Nan")
    if not is_float(dtype_of(value)):
        plain = Operation(kind.capitalize(), item.name, {}, "")
        function = (
            convert_sum if kind in ("sum", "prod") else convert_extreme if kind in ("max", "min") else convert_moment
        )
        return function(plain, value, axis, keepdims)
    axes, missing = axes_of(value, axis), op.isnan(value)
    instead = {"prod": 1.0, "max": float("-inf"), "min": float("inf")}.get(kind, 0.0)
    filled = op.where(missing, like(instead, value), value)
    if kind in ("sum", "prod", "max", "min"):
        made = getattr(op, kind)(filled, axis=axes, keepdims=keepdims)
        if kind in ("sum", "prod"):
            return made
        return op.where(op.all(missing, axis=axes, keepdims=keepdims), float("nan"), made)
    count = op.sum(cast(op.logical_not(missing), dtype_of(value)), axis=axes, keepdims=True)
    mean = op.sum(filled, axis=axes, keepdims=True) / count
    if kind == "mean":
        return mean if keepdims else op.squeeze(mean, axis=axes)
    centred = op.where(missing, 0, value - mean)
    made = op.sum(centred * centred, axis=axes, keepdims=True) / count
    made = op.sqrt(made) if kind == "std" else made
    return made if keepdims else op.squeeze(made, axis=axes)


# ------------------------------------------------------------------------------------------------------------- orders
@operation("Argmax", "Argmin", "Nanargmax", "Nanargmin")
def convert_argmax(item: Operation, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
    (value,) = tensors(x)
    largest = item.class_name.endswith("max")
    if item.class_name.startswith("Nan") and is_float(dtype_of(value)):
        value = op.where(op.isnan(value), float("-inf" if largest else "inf"), value)
    value = cast(value, "int32") if dtype_of(value) == "bool" else value
    whole = axis is None
    flat = reshape(value, (product(shape_of(value)),)) if whole else value
    position = 0 if whole else int(axis) % rank_of(value)
    made = (op.argmax if largest else op.argmin)(flat, axis=position, keepdims=keepdims and not whole)
    made = reshape(made, (1,) * rank_of(value)) if whole and keepdims else made
    return cast(made, "int32")


@operation("Argsort", "Sort")
def convert_sort(item: Operation, x: Any, axis: Any = -1) -> Expr:
    (value,) = tensors(x)
    if axis is None:
        value, axis = reshape(value, (product(shape_of(value)),)), 0
    position = int(axis) % rank_of(value)
    if item.class_name == "Sort":
        return op.sort(value, axis=position)
    return op.argsort(cast(value, "int32") if dtype_of(value) == "bool" else value, axis=position, dtype="int32")


@operation("TopK")
def convert_top_k(_item: Operation, x: Any, k: int, sorted: bool = True) -> list[Expr]:
    (value,) = tensors(x)
    made = op.topk(value, k=int(k), axis=-1, dtype="int32")
    return [made[0], made[1]]


@operation("InTopK")
def convert_in_top_k(_item: Operation, targets: Any, predictions: Any, k: int) -> Expr:
    scores = as_float(predictions)
    positions = op.expand_dims(cast(targets, "int32"), axis=1)
    own = op.gather(scores, 1, positions)
    above = op.sum(cast(scores > own, "int32"), axis=(1,))
    inside = op.logical_and(positions >= constant(0, "int32"), positions < constant(shape_of(scores)[1], "int32"))
    return op.logical_and(above < constant(int(k), "int32"), op.squeeze(inside, axis=(1,)))


@operation("SearchSorted")
def convert_searchsorted(_item: Operation, sorted_sequence: Any, values: Any, side: str = "left") -> Expr:
    left, right = tensors(sorted_sequence, values)
    return op.searchsorted(left, right, right=side == "right", dtype="int32")


@operation("Digitize")
def convert_digitize(_item: Operation, x: Any, bins: Any) -> Expr:
    value, edges = tensors(x, bins)
    return op.searchsorted(edges, value, right=True, dtype="int32")


@operation("Cumsum", "Cumprod", "Nancumsum", "Nancumprod")
def convert_cumulative(item: Operation, x: Any, axis: Any = None, dtype: Any = None) -> Expr:
    (value,) = tensors(x)
    value = cast(value, "int32") if dtype_of(value) == "bool" else value
    value = cast(value, str(dtype)) if dtype else value
    product_of = item.class_name.endswith("prod")
    if item.class_name.startswith("Nan") and is_float(dtype_of(value)):
        value = op.where(op.isnan(value), like(1 if product_of else 0, value), value)
    if axis is None:
        value, axis = reshape(value, (product(shape_of(value)),)), 0
    return (op.cumprod if product_of else op.cumsum)(value, axis=int(axis) % rank_of(value))


@operation("Quantile", "Percentile", "Median")
def convert_quantile(
    item: Operation, x: Any, q: Any = None, axis: Any = None, method: str = "linear", keepdims: bool = False
) -> Expr:
    value = as_float(x)
    axes = axes_of(value, axis)
    levels = np.asarray(0.5 if item.class_name == "Median" else getattr(q, "data", q), "float64")
    levels = levels / 100 if item.class_name == "Percentile" else levels
    rest = [one for one in range(rank_of(value)) if one not in axes]
    count = product([shape_of(value)[one] for one in axes])
    if not isinstance(count, int):
        item.unsupported("a symbolic dimension; give it with input_shapes")
    rows = reshape(op.transpose(value, axes=(*rest, *axes)), (*(shape_of(value)[one] for one in rest), count))
    ordered = op.sort(rows, axis=-1)
    parts = [_at_level(item, ordered, float(level), count, method) for level in levels.reshape(-1)]
    if keepdims:
        for one in sorted(axes):
            parts = [op.expand_dims(part, axis=one) for part in parts]
    return parts[0] if levels.ndim == 0 else op.stack(parts, axis=0)


def _at_level(item: Operation, ordered: Expr, level: float, count: int, method: str) -> Expr:
    position = level * (count - 1)
    low, high = int(np.floor(position)), int(np.ceil(position))
    if method == "nearest":
        low = high = int(np.round(position))
    elif method == "lower":
        high = low
    elif method == "higher":
        low = high
    share = {"linear": position - low, "midpoint": 0.5 if low != high else 0.0}.get(method, 0.0)
    if method not in ("linear", "midpoint", "nearest", "lower", "higher"):
        item.unsupported(f"method {method!r}")
    first, second = (op.take(ordered, constant(one, "int32"), axis=rank_of(ordered) - 1) for one in (low, high))
    return first + (second - first) * share if share else first


@operation("Corrcoef")
def convert_corrcoef(_item: Operation, x: Any) -> Expr:
    value = as_float(x)
    centred = value - op.mean(value, axis=(1,), keepdims=True)
    cover = matmul(centred, op.transpose(centred, axes=(1, 0)))
    scale = op.sqrt(op.sum(centred * centred, axis=(1,)))
    return cover / op.expand_dims(scale, axis=1) / op.expand_dims(scale, axis=0)


@operation("SegmentSum", "SegmentMax", "SegmentMin", "SegmentProd")
def convert_segment(
    item: Operation, data: Any, segment_ids: Any, num_segments: Any = None, sorted: bool = False
) -> Expr:
    (value,) = tensors(data)
    if num_segments is None:
        item.unsupported("segments whose number is not given (num_segments)")
    kind = item.class_name.removeprefix("Segment").lower()
    start: Any = {"sum": 0, "prod": 1}.get(kind)
    if start is None:
        start = DType(dtype_of(value)).extremes()[0 if kind == "max" else 1]
    shape = (int(num_segments), *shape_of(value)[1:])
    table = op.full(like(start, value), shape=shape, dtype=dtype_of(value))
    positions = cast(segment_ids, "int32")
    mode = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}[kind]
    return op.scatter_nd(table, op.expand_dims(positions, axis=0), value, mode=mode)
