"""Operations of `keras.ops` that make one number of many, or put numbers in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend import idioms
from tilewright.frontend.builders import functions
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.builders.reductions import in_top_k, p_norm, segmented
from tilewright.frontend.keras.layer import Axes, FloatTensor, Operation, Tensor, as_float
from tilewright.frontend.keras.numeric_operations import truth
from tilewright.frontend.keras.registry import operation, operations
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

Reduction = Callable[..., Expr]


def _reducing(function: Reduction, first: Callable[[Expr], Expr] = lambda x: x) -> Reduction:
    """The converter of a reduction of what `first` makes of the operand."""

    def convert(x: Expr, axis: Axes = (), keepdims: bool = False, dtype: Any = None) -> Expr:
        value = first(x)
        return function(idioms.cast(value, str(dtype)) if dtype else value, axis=axis, keepdims=keepdims)

    return convert


def _extreme(largest: bool) -> Reduction:
    def convert(x: Expr, axis: Axes = (), keepdims: bool = False, initial: Any = None) -> Expr:
        of_truth, of_numbers, of_two = (op.any, op.max, op.maximum) if largest else (op.all, op.min, op.minimum)
        made = (of_truth if idioms.dtype_of(x) == "bool" else of_numbers)(x, axis=axis, keepdims=keepdims)
        return made if initial is None else of_two(made, idioms.like(initial, made))

    return convert


def _variance(value: Expr, axis: Axes, keepdims: bool) -> Expr:
    centred = value - op.mean(value, axis=axis, keepdims=True)
    return op.mean(centred * centred, axis=axis, keepdims=keepdims)


def _moment(function: Reduction) -> Reduction:
    """A reduction of floats, of short ones in float32."""

    def convert(x: FloatTensor, axis: Axes = (), keepdims: bool = False) -> Expr:
        wide = idioms.cast(x, "float32") if idioms.dtype_of(x) in ("float16", "bfloat16") else x
        return idioms.cast(function(wide, axis=axis, keepdims=keepdims), idioms.dtype_of(x))

    return convert


def _moments(x: FloatTensor, axes: Axes, keepdims: bool = False) -> list[Expr]:
    return [op.mean(x, axis=axes, keepdims=keepdims), _variance(x, axes, keepdims)]


def _norm(item: Operation, x: FloatTensor, ord: Any = None, axis: Axes = (), keepdims: bool = False) -> Expr:
    kind = 2.0 if ord in (None, "fro") else ord if ord == "nuc" else float(ord)
    if ord in (None, "fro") or (len(axis) == 1 and kind != "nuc"):
        return p_norm(x, axis, kind, keepdims)
    if len(axis) == 2 and kind in (1.0, -1.0, float("inf"), float("-inf")):
        first, second = axis if abs(kind) == 1 else axis[::-1]
        sums = op.sum(op.abs(x), axis=(first,), keepdims=True)
        made = (op.max if kind > 0 else op.min)(sums, axis=(second,), keepdims=True)
        return made if keepdims else op.squeeze(made, axis=tuple(sorted(axis)))
    item.unsupported(f"the norm ord={ord!r} over {len(axis)} axes")


def _search(sorted_sequence: Tensor, values: Tensor, side: str = "left") -> Expr:
    return op.searchsorted(sorted_sequence, values, right=side == "right", dtype="int32")


def _summable(value: Expr) -> Expr:
    """Truth values and short integers as the integers that they are summed in."""
    dtype = idioms.dtype_of(value)
    if dtype in ("bool", "int8", "int16"):
        return idioms.cast(value, "int32")
    return idioms.cast(value, "uint32") if dtype in ("uint8", "uint16") else value


_CONVERTERS: dict[str, Callable[..., Any]] = {
    "Sum": _reducing(op.sum, _summable), "Prod": _reducing(op.prod, _summable), "Max": _extreme(True),
    "Amax": _extreme(True), "Min": _extreme(False), "Amin": _extreme(False),
    "Ptp": _reducing(lambda x, **over: op.max(x, **over) - op.min(x, **over)), "Any": _reducing(op.any, truth),
    "All": _reducing(op.all, truth),
    "CountNonzero": _reducing(op.sum, lambda x: idioms.cast(op.not_equal(x, 0), "int32")),
    "Mean": _moment(op.mean), "Var": _moment(_variance),
    "Std": _moment(lambda x, **over: op.sqrt(_variance(x, **over))),
    "Logsumexp": _reducing(lambda x, axis, keepdims: functions.log_sum_exp(x, axis, keepdims), as_float),
    "Moments": _moments, "Norm": _norm, "SearchSorted": _search,
}  # fmt: skip
for _name, _converter in _CONVERTERS.items():
    operation(_name)(_converter)
operations("Tensor", {"Digitize": lambda x, bins: op.searchsorted(bins, x, right=True, dtype="int32")})
operations("Expr", {"TopK": lambda x, k=1: idioms.outputs(op.topk(x, k=int(k), axis=-1, dtype="int32"))})


@operation("Average")
def convert_average(x: FloatTensor, axis: Axes = (), weights: FloatTensor | None = None) -> Expr:
    if weights is None:
        return op.mean(x, axis=axis)
    if idioms.rank_of(weights) == 1 and idioms.rank_of(x) > 1:
        weights = idioms.on_axis(weights, axis[0], idioms.rank_of(x))
    wide = op.broadcast_to(weights, shape=idioms.shape_of(x))
    return op.sum(x * wide, axis=axis) / op.sum(wide, axis=axis)


# ---------------------------------------------------------------------------------------------------- without numbers
@operation("Nansum", "Nanprod", "Nanmax", "Nanmin", "Nanmean", "Nanvar", "Nanstd")
def convert_nan_reduction(item: Operation, x: Expr, axis: Axes = (), keepdims: bool = False) -> Expr:
    kind = item.class_name.removeprefix("Nan")
    if not idioms.is_float(idioms.dtype_of(x)):
        return _CONVERTERS[kind.capitalize()](
            x if kind in ("sum", "prod", "max", "min") else as_float(x), axis, keepdims
        )
    missing = op.isnan(x)
    instead = {"prod": 1.0, "max": float("-inf"), "min": float("inf")}.get(kind, 0.0)
    filled = op.where(missing, idioms.like(instead, x), x)
    if kind in ("sum", "prod", "max", "min"):
        made = getattr(op, kind)(filled, axis=axis, keepdims=keepdims)
        if kind in ("sum", "prod"):
            return made
        return op.where(op.all(missing, axis=axis, keepdims=keepdims), float("nan"), made)
    count = op.sum(idioms.cast(op.logical_not(missing), idioms.dtype_of(x)), axis=axis, keepdims=True)
    mean = op.sum(filled, axis=axis, keepdims=True) / count
    if kind == "mean":
        return mean if keepdims else op.squeeze(mean, axis=axis)
    centred = op.where(missing, 0, x - mean)
    made = op.sum(centred * centred, axis=axis, keepdims=True) / count
    made = op.sqrt(made) if kind == "std" else made
    return made if keepdims else op.squeeze(made, axis=axis)


# ------------------------------------------------------------------------------------------------------------- orders
@operation("Argmax", "Argmin", "Nanargmax", "Nanargmin")
def convert_argmax(item: Operation, x: Expr, axis: Any = None, keepdims: bool = False) -> Expr:
    largest = item.class_name.endswith("max")
    if item.class_name.startswith("Nan") and idioms.is_float(idioms.dtype_of(x)):
        x = op.where(op.isnan(x), float("-inf" if largest else "inf"), x)
    x = idioms.cast(x, "int32") if idioms.dtype_of(x) == "bool" else x
    flat, position = idioms.along_axis(x, axis)
    made = (op.argmax if largest else op.argmin)(flat, axis=position, keepdims=keepdims and axis is not None)
    made = idioms.reshape(made, (1,) * idioms.rank_of(x)) if axis is None and keepdims else made
    return idioms.cast(made, "int32")


@operation("Argsort", "Sort")
def convert_sort(item: Operation, x: Expr, axis: Any = -1) -> Expr:
    x, position = idioms.along_axis(x, axis)
    if item.class_name == "Sort":
        return op.sort(x, axis=position)
    return op.argsort(idioms.cast(x, "int32") if idioms.dtype_of(x) == "bool" else x, axis=position, dtype="int32")


@operation("InTopK")
def convert_in_top_k(targets: Any, predictions: FloatTensor, k: int) -> Expr:
    return in_top_k(predictions, idioms.cast(targets, "int32"), int(k))


@operation("Cumsum", "Cumprod", "Nancumsum", "Nancumprod")
def convert_cumulative(item: Operation, x: Expr, axis: Any = None, dtype: Any = None) -> Expr:
    x = idioms.cast(x, "int32") if idioms.dtype_of(x) == "bool" else x
    x = idioms.cast(x, str(dtype)) if dtype else x
    product_of = item.class_name.endswith("prod")
    if item.class_name.startswith("Nan") and idioms.is_float(idioms.dtype_of(x)):
        x = op.where(op.isnan(x), idioms.like(1 if product_of else 0, x), x)
    x, axis = idioms.along_axis(x, axis)
    return (op.cumprod if product_of else op.cumsum)(x, axis=axis)


@operation("Quantile", "Percentile", "Median")
def convert_quantile(
    item: Operation, x: FloatTensor, q: Any = None, axis: Axes = (), method: str = "linear", keepdims: bool = False
) -> Expr:
    levels = np.asarray(0.5 if item.class_name == "Median" else getattr(q, "data", q), "float64")
    levels = levels / 100 if item.class_name == "Percentile" else levels
    rest = [one for one in range(idioms.rank_of(x)) if one not in axis]
    count = idioms.product([idioms.shape_of(x)[one] for one in axis])
    if not isinstance(count, int):
        item.unsupported("a symbolic dimension; pass it with input_shapes")
    rows = idioms.reshape(op.transpose(x, axes=(*rest, *axis)), (*(idioms.shape_of(x)[one] for one in rest), count))
    ordered = op.sort(rows, axis=-1)
    parts = [_at_level(item, ordered, float(level), count, method) for level in levels.reshape(-1)]
    if keepdims:
        for one in sorted(axis):
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
    first, second = (
        op.take(ordered, idioms.constant(one, "int32"), axis=idioms.rank_of(ordered) - 1) for one in (low, high)
    )
    return first + (second - first) * share if share else first


@operation("Corrcoef")
def convert_corrcoef(x: FloatTensor) -> Expr:
    centred = x - op.mean(x, axis=(1,), keepdims=True)
    cover = matmul(centred, op.transpose(centred, axes=(1, 0)))
    scale = op.sqrt(op.sum(centred * centred, axis=(1,)))
    return cover / op.expand_dims(scale, axis=1) / op.expand_dims(scale, axis=0)


@operation("SegmentSum", "SegmentMax", "SegmentMin", "SegmentProd")
def convert_segment(
    item: Operation, data: Expr, segment_ids: Any, num_segments: Any = None, sorted: bool = False
) -> Expr:
    if num_segments is None:
        item.unsupported("segments whose number is not given (num_segments)")
    kind, ids = item.class_name.removeprefix("Segment").lower(), idioms.cast(segment_ids, "int32")
    return segmented(kind, data, ids, int(num_segments), infinite=True)
