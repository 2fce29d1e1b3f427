"""Arithmetic of shapes that types, references and computes share.

A size is an int or, where it is symbolic, an int32 expression of the loop IR; `Size` stands for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tilewright.tir import op as tir_op
from tilewright.tir.arith import Analyzer
from tilewright.tir.expr import Expr, IntImm

Size = Any


def simplified(size: Size) -> Size:
    """`size` in its simplest form; an int where it is constant."""
    if not isinstance(size, Expr):
        return size
    simple = Analyzer().simplify(size)
    return simple.value if isinstance(simple, IntImm) else simple


def smaller(a: Size, b: Size) -> Size:
    """The smaller of two sizes."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else simplified(tir_op.minimum(a, b))


def larger(a: Size, b: Size) -> Size:
    """The larger of two sizes."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else simplified(tir_op.maximum(a, b))


def equal(a: Size, b: Size) -> bool | Expr:
    """True if two sizes are equal; a condition where one is symbolic."""
    return a == b if isinstance(a, int) and isinstance(b, int) else tir_op.eq(a, b)


def may_hold(condition: bool | Expr) -> bool:
    """False only if `condition` on sizes is known to be false; an undecided one is noted (`undecided_conditions`)."""
    if isinstance(condition, bool):
        return condition
    simple = simplified(condition)
    if isinstance(simple, int):
        return bool(simple)
    noted = _undecided.get()
    if noted is not None:
        noted.append(simple)
    return True


_undecided: ContextVar[list[Expr] | None] = ContextVar("undecided", default=None)


@contextmanager
def undecided_conditions() -> Iterator[list[Expr]]:
    """The conditions on symbolic sizes that `may_hold` cannot decide within the block: a run has to check them."""
    noted: list[Expr] = []
    token = _undecided.set(noted)
    try:
        yield noted
    finally:
        _undecided.reset(token)


def conv_output(size: Size, kernel: int, stride: int, before: int, after: int, dilation: int) -> Size:
    """Output extent of a convolution along one axis; below 1 if the kernel does not fit."""
    return simplified((size + before + after - (kernel - 1) * dilation - 1) // stride + 1)


def pool_output(size: Size, kernel: int, stride: int, before: int, after: int, dilation: int, ceil_mode: bool) -> Size:
    """Output extent of a pooling along one axis.

    With `ceil_mode` a last window that is only partly inside counts, unless it would start in the padding after.
    """
    span = size + before + after - (kernel - 1) * dilation - 1
    if not ceil_mode:
        return simplified(span // stride + 1)
    out = (span + stride - 1) // stride + 1
    starts_behind = (out - 1) * stride >= size + before
    if isinstance(starts_behind, Expr):
        return simplified(smaller(out, (size + before + stride - 1) // stride))
    return out - 1 if starts_behind else out


def transpose_output(
    size: Size, kernel: int, stride: int, before: int, after: int, dilation: int, output_padding: int
) -> Size:
    """Output extent of a transposed convolution along one axis."""
    return simplified((size - 1) * stride + (kernel - 1) * dilation + 1 + output_padding - before - after)


def adaptive_window(index: int, size: int, out: int) -> tuple[int, int]:
    """The half-open range of the `size` inputs that output `index` of `out` averages in adaptive pooling."""
    return index * size // out, -(-(index + 1) * size // out)


def slice_bounds(
    shape: Sequence[Size],
    begin: Sequence[Size | None],
    end: Sequence[Size | None],
    strides: Sequence[int | None] | None,
    axes: Sequence[int] | None,
) -> list[tuple[Size, int, Size]]:
    """(first index, stride, count) of every dimension of a strided slice with Python's (and ONNX's) clamping.

    Negative `begin` and `end` count from the back, None is as far as it goes, a stride of None is 1; `axes` None means
    the first `len(begin)` dimensions.
    """
    bounds: list[tuple[Size, int, Size]] = [(0, 1, size) for size in shape]
    steps = [1] * len(begin) if strides is None or not len(strides) else list(strides)
    if len(steps) == 1:
        steps = steps * len(begin)
    for axis, first, last, step in zip(axes if axes is not None else range(len(begin)), begin, end, steps):
        size = shape[axis]
        step = 1 if step is None else step
        first = (-_FAR if step > 0 else _FAR) if first is None else first
        last = (_FAR if step > 0 else -_FAR) if last is None else last
        if isinstance(size, int) and isinstance(first, int) and isinstance(last, int):
            start, stop, step = slice(first, last, step).indices(size)
            bounds[axis] = (start, step, len(range(start, stop, step)))
        else:
            bounds[axis] = _symbolic_bound(size, first, last, step)
    return bounds


#: A begin or end beyond this is "as far as it goes", whatever the size.
_FAR = 10**9


def _symbolic_bound(size: Size, first: Size, last: Size, step: int) -> tuple[Size, int, Size]:
    """One dimension of `slice_bounds` where the size, begin or end is symbolic."""
    if step > 0:
        start, stop = _clamped(first, size, 0, size), _clamped(last, size, 0, size)
        count = (stop - start + (step - 1)) // step
    else:
        start, stop = _clamped(first, size, -1, size - 1), _clamped(last, size, -1, size - 1)
        count = (start - stop + (-step - 1)) // -step
    if isinstance(start, int) and start == 0 and stop is size:
        return 0, step, simplified(count)
    return simplified(start), step, larger(0, simplified(count))


def _clamped(index: Size, size: Size, low: int, high: Size) -> Size:
    """A begin or end as an index from `low` to `high`."""
    if isinstance(index, int):
        if index >= _FAR:
            return high
        if index <= -_FAR:
            return low
        if index < 0:
            return larger(low, index + size)
        return 0 if index == 0 and low == 0 else smaller(index, high)
    from_back = tir_op.select(index < 0, index + size, index)
    return smaller(larger(simplified(from_back), low), high)
