"""Reductions: sum, product, extremes and their positions, any and all."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.size_hint import size_hint
from tilewright.topi import tag
from tilewright.topi.elemwise import unary
from tilewright.topi.util import accumulator_dtype, average_dtype, extents, flatten_index, normalize_axes

Axis = int | Sequence[int] | None

_all = te.comm_reducer(tir.logical_and, lambda t: tir.const(True, t), "all")
_any = te.comm_reducer(tir.logical_or, lambda t: tir.const(False, t), "any")


def _reduced(shape: Sequence[Any], axes: Sequence[int], keepdims: bool) -> list[Any]:
    return [1 if d in axes else s for d, s in enumerate(shape) if keepdims or d not in axes]


def reduce(
    x: Tensor, reducer: Callable[..., Any], axis: Axis, keepdims: bool, exclude: bool, name: str, source: Any = None
) -> Tensor:
    """`reducer` over `axis` of `source(*indices)`, by default the elements of `x`."""
    axes = normalize_axes(axis, x.ndim, exclude)
    if not axes:
        return unary(x, lambda v: v, name)
    first = _partial_axis(extents(x), axes) if name in _PARTIAL else None
    if first is not None:
        rest = [a for a in axes if a != first]
        partial = reduce(x, reducer, rest, True, False, f"{name}_partial", source)
        return reduce(partial, reducer, axes, keepdims, False, f"{name}_total")
    ranges = [te.reduce_axis((0, x.shape[a]), name=f"k{a}") for a in axes]
    read = source or (lambda *i: x(*i))

    def body(*outer: Any) -> Any:
        return reducer(read(*full_indices(x.ndim, axes, outer, ranges, keepdims)), axis=ranges)

    shape = _reduced(x.shape, axes, keepdims)
    kind = f"{tag.COMM_REDUCE},{tag.PARTIAL}" if name.endswith("_partial") else tag.COMM_REDUCE
    return te.compute(shape, body, name=f"T_{name}", tag=kind, attrs={"axes": axes})


#: Reductions that may be computed in parts; a position is not such.
_PARTIAL = frozenset({"sum", "prod", "max", "min"})
#: Fewer results than this do not occupy the workers.
_FEW_RESULTS = 8
#: Elements reduced at once that are worth parts, and results that are neighbours and computed by one worker.
_MANY_ELEMENTS, _NEIGHBOURS = 4096, 64


def _partial_axis(shape: Sequence[Any], axes: Sequence[int]) -> int | None:
    """The axis whose slices are reduced first, each to a result of its own, where there are few results; else None.

    So each worker has something to do, and shorter sums are more exact. The parts do not depend on the workers.
    """
    shape = [size_hint(size) for size in shape]
    if 0 in shape:
        return None
    results = math.prod(s for d, s in enumerate(shape) if d not in axes)
    if len(shape) - 1 not in axes:
        results //= shape[-1] if shape[-1] < _NEIGHBOURS else _NEIGHBOURS
    if results >= _FEW_RESULTS or len(axes) < 2 or math.prod(shape[a] for a in axes) < _MANY_ELEMENTS:
        return None
    return next((a for a in axes[:-1] if shape[a] >= _FEW_RESULTS), None)


def full_indices(
    ndim: int, axes: Sequence[int], outer: Sequence[Any], ranges: Sequence[Any], keepdims: bool
) -> list[Any]:
    """Indices into the reduced tensor: the reduction variables on `axes`, the output's own elsewhere."""
    free = iter([i for d, i in enumerate(outer) if not keepdims or d not in axes])
    inner = iter(ranges)
    return [next(inner) if d in axes else next(free) for d in range(ndim)]


def sum(x: Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tensor:
    """The sum over `axis`; half floats are summed in float32 and rounded once."""
    return _in_wide(x, te.sum, axis, keepdims, exclude, "sum")


def _in_wide(x: Tensor, reducer: Any, axis: Axis, keepdims: bool, exclude: bool, name: str) -> Tensor:
    wide = accumulator_dtype(x.dtype)
    if wide == x.dtype:
        return reduce(x, reducer, axis, keepdims, exclude, name)
    total = reduce(x, reducer, axis, keepdims, exclude, name, lambda *i: x(*i).astype(wide))
    return unary(total, lambda v: v.astype(x.dtype), f"{name}_cast")


def prod(x: Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tensor:
    """The product over `axis`; half floats are multiplied in float32 and rounded once."""
    return _in_wide(x, te.prod, axis, keepdims, exclude, "prod")


def max(x: Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tensor:
    """The largest element over `axis`; of bools whether any holds."""
    if x.dtype.is_bool:
        return any(x, axis, keepdims, exclude)
    return reduce(x, te.max, axis, keepdims, exclude, "max")


def min(x: Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tensor:
    """The smallest element over `axis`; of bools whether all hold."""
    if x.dtype.is_bool:
        return all(x, axis, keepdims, exclude)
    return reduce(x, te.min, axis, keepdims, exclude, "min")


def all(x: Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tensor:
    """True where every element over `axis` is."""
    return reduce(x, _all, axis, keepdims, exclude, "all")


def any(x: Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tensor:
    """True where some element over `axis` is."""
    return reduce(x, _any, axis, keepdims, exclude, "any")


def mean(x: Tensor, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tensor:
    """The mean over `axis`: a sum, then a division by the count (integers round towards zero)."""
    count: Any = 1
    for a in normalize_axes(axis, x.ndim, exclude):
        count *= extents(x)[a]
    wide = average_dtype(x.dtype, count)
    total = reduce(x, te.sum, axis, keepdims, exclude, "sum", lambda *i: x(*i).astype(wide))

    def body(v: Any) -> Any:
        n = tir.const(count, wide) if isinstance(count, int) else count.astype(wide)
        return (tir.div(v, n) if v.dtype.is_float else tir.truncdiv(v, n)).astype(x.dtype)

    return unary(total, body, "mean")


def _arg(x: Tensor, which: str, axis: Axis, keepdims: bool, exclude: bool, last: bool, dtype: str) -> Tensor:
    """Stages: the extreme value, the first (or last) position that holds it, the cast.

    Two reductions of one number each are vector code; one reduction of (position, value) pairs is not. NaN is the
    extreme of a row that holds one, as in NumPy: then no number is as good.
    """
    axes = normalize_axes(axis, x.ndim, exclude)
    sizes = [extents(x)[a] for a in axes]
    largest = which == "argmax"
    best = reduce(x, te.max if largest else te.min, axes, keepdims, False, f"{which}_value")
    ranges = [te.reduce_axis((0, x.shape[a]), name=f"k{a}") for a in axes]

    def body(*outer: Any) -> Any:
        position = flatten_index([r.var for r in ranges], sizes)
        value, extreme = x(*full_indices(x.ndim, axes, outer, ranges, keepdims)), best(*outer)
        worse = tir.logical_not(value >= extreme if largest else value <= extreme)
        if x.dtype.is_float:
            worse = tir.logical_and(worse, tir.eq(value, value))
        never = tir.const(-1 if last else te.index_dtype().limits()[1], te.index_dtype())
        return (te.max if last else te.min)(tir.select(worse, never, position), axis=ranges)

    shape = _reduced(x.shape, axes, keepdims)
    index = te.compute(shape, body, name=f"T_{which}", tag=tag.COMM_REDUCE_IDX, attrs={"axes": axes})
    return unary(index, lambda v: v.astype(dtype), f"{which}_index")


def argmax(
    x: Tensor,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
    dtype: str = "int32",
) -> Tensor:
    """Position of the largest element over `axis` (row-major over several axes), the first of equals by default."""
    return _arg(x, "argmax", axis, keepdims, exclude, select_last_index, dtype)


def argmin(
    x: Tensor,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
    dtype: str = "int32",
) -> Tensor:
    """Position of the smallest element over `axis`, as `argmax`."""
    return _arg(x, "argmin", axis, keepdims, exclude, select_last_index, dtype)
