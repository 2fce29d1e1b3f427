"""Classic slices of `te` tensors, whose begin, end and strides may be tensors: values known when the code runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir, topi
from tilewright.compat.topi.through_relay import as_compute
from tilewright.errors import InputError
from tilewright.relay import op

_set_by_numbers = as_compute(op.strided_set)


def strided_slice(
    a: te.Tensor, begin: Any, end: Any, strides: Any = None, axes: Sequence[int] | None = None, slice_mode: str = "end"
) -> te.Tensor:
    """Python slicing along `axes` (the leading ones by default); in the mode "size", `end` says how many are taken.

    With tensors for begin, end or strides, the sizes along these axes are new variables, which the result's buffer
    says when the code is called. Raises `InputError` for tensors that are not of one dimension.
    """
    if slice_mode not in ("end", "size"):
        raise InputError(f'topi.strided_slice: slice_mode is "end" or "size"; got {slice_mode!r}')
    strides = None if slice_mode == "size" else strides
    if not any(isinstance(given, te.Tensor) for given in (begin, end, strides)):
        if slice_mode == "size":
            end = [_end(first, count) for first, count in zip(begin, end, strict=True)]
        return topi.strided_slice(a, begin, end, strides or None, axes)
    count = _length(begin)
    positions = list(axes) if axes is not None else list(range(count))
    shape = list(a.shape)
    for position in positions:
        shape[position] = te.size_var(f"sliced{position}")
    first, last, step = _reader(begin), _reader(end), _reader([1] * count if strides is None else strides)

    def body(*indices: Any) -> Any:
        where = list(indices)
        for k, position in enumerate(positions):
            start, _, by = _bounds(a.shape[position], first(k), last(k), step(k))
            where[position] = indices[position] * by + start
        return a(*where)

    return te.compute(shape, body, name="strided_slice", tag=topi.tag.INJECTIVE)


def strided_set(a: te.Tensor, v: te.Tensor, begin: Any, end: Any, strides: Any = None) -> te.Tensor:
    """`a` with the slice of its leading axes replaced by `v`."""
    if not any(isinstance(given, te.Tensor) for given in (begin, end, strides)):
        return _set_by_numbers(a, v, begin, end, strides)
    count = _length(begin)
    first, last, step = _reader(begin), _reader(end), _reader([1] * count if strides is None else strides)

    def body(*indices: Any) -> Any:
        inside, where = [], list(indices)
        for k in range(count):
            start, stop, by = _bounds(a.shape[k], first(k), last(k), step(k))
            away = tir.select(by > 0, indices[k] - start, start - indices[k])
            span = tir.select(by > 0, stop - start, start - stop)
            size = tir.maximum(tir.select(by > 0, by, 0 - by), 1)
            inside += [away >= 0, tir.less(away, span), tir.eq(away % size, 0)]
            where[k] = away // size
        return tir.if_then_else(tir.all(*inside), v(*where), a(*indices))

    return te.compute(a.shape, body, name="strided_set", tag=topi.tag.INJECTIVE)


def _end(first: int, count: int) -> int | None:
    """The end of `count` elements from `first`; None for all that are left, which are -1."""
    return None if count == -1 or first < 0 <= first + count else first + count


def _length(given: Any) -> int:
    """The number of axes in `given`."""
    if not isinstance(given, te.Tensor):
        return len(given)
    if given.ndim != 1 or not isinstance(given.shape[0], tir.IntImm):
        raise InputError(f"a slice's begin, end and strides are tensors of one dimension of known size, not {given}")
    return int(given.shape[0])


def _reader(given: Any) -> Callable[[int], Any]:
    """The kth of `given` as an index; one alone is that of every axis."""
    length = _length(given)

    def read(k: int) -> Any:
        position = k if length > 1 else 0
        return given(position).astype("int32") if isinstance(given, te.Tensor) else tir.convert(given[position])

    return read


def _bounds(size: Any, first: Any, last: Any, step: Any) -> tuple[Any, Any, Any]:
    """The first index, the end and the step of one axis, with Python's clamping."""
    forwards = step > 0
    low, high = tir.select(forwards, 0, -1), tir.select(forwards, size, size - 1)

    def clamped(index: Any) -> Any:
        return tir.minimum(tir.maximum(tir.select(index < 0, index + size, index), low), high)

    return clamped(first), clamped(last), step
