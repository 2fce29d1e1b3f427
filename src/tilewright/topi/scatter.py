"""Scatters: updates written to, or combined with, the elements of a tensor that indices name.

The tensor is copied and the updates follow one after the other, in order: of several for one element the last counts,
and sums are the same for any number of workers. Workers share what cannot meet: for scatters along an axis what lies
before it, for slices parts of the slices. Negative indices count from the back; one out of range names nothing.
Where many updates may meet in one element, what each sum of floats has lost to rounding is kept beside it and put into
the next one (Kahan's summation), so that the error does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import IntImm
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.tir.stmt import Stmt
from tilewright.topi import tag
from tilewright.topi.loops import clear_elements, copy_elements, count, for_each
from tilewright.topi.util import as_index, normalize_axis, unflatten_index

#: mode -> combination of an element with an update
_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda _old, update: update,
    "add": tir.add,
    "mul": tir.multiply,
    "min": tir.minimum,
    "max": tir.maximum,
}
MODES = tuple(_COMBINE)

Put = Callable[[tuple[Any, ...], Any], None]

#: Elements of a slice that one worker takes at a time, and of one step.
_PART, _LANES = 64, 16
#: Updates that one element may take without what is lost of the sum kept.
_FEW = 256


def scatter_elements(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, mode: str = "update") -> Tensor:
    """out[i, …, indices[i, k, …], …] takes updates[i, k, …], k along `axis`; other axes of the updates may be shorter.

    Of several updates of one element the last counts (`mode` "update"), or all are combined with it (add, mul, min,
    max).
    """
    at = normalize_axis(axis, data.ndim)

    def write(ib: IRBuilder, where: BufferVar, values: BufferVar, put: Put) -> None:
        before, behind = indices.shape[:at], indices.shape[at:]
        with for_each(ib, before, kind="parallel") as outer, for_each(ib, behind) as inner:
            position = (*outer, *inner)
            index = ib.let("index", _from_back(where[position], data.shape[at]))
            with ib.if_scope(_inside(index, data.shape[at])):
                put((*outer, as_index(index), *inner[1:]), values[position])

    return _scattered(data, indices, updates, mode, indices.shape[at], write)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """Slices of `data` at the coordinates in the first axis of `indices` [M, …] take `updates` […, data's other axes].

    `mode` as in `scatter_elements`.
    """
    depth = int(indices.shape[0].value)  # type: ignore[attr-defined]
    many, rest = indices.shape[1:], data.shape[depth:]

    def write(ib: IRBuilder, where: BufferVar, values: BufferVar, put: Put) -> None:
        size = count(rest)
        with ib.for_range(0, (size + (_PART - 1)) // _PART, name="part", kind="parallel") as part:
            first = ib.let("first", part * _PART)
            end = ib.let("end", tir.minimum(first + _PART, size))
            with for_each(ib, many) as step:
                found = [ib.let("index", _from_back(where[(d, *step)], data.shape[d])) for d in range(depth)]
                inside = [_inside(index, data.shape[d]) for d, index in enumerate(found)]
                with ib.if_scope(tir.all(*inside) if inside else tir.const(True)):
                    slice_ = [as_index(index) for index in found]

                    def put_element(element: Any) -> None:
                        own = unflatten_index(element, rest)
                        put((*slice_, *own), values[(*step, *own)])

                    _in_vectors(ib, first, end, put_element)

    return _scattered(data, indices, updates, mode, count(many), write)


def _in_vectors(ib: IRBuilder, first: Any, end: Any, put: Callable[[Any], None]) -> None:
    """`put` for each number from `first` to `end`, in vectors as far as whole ones go."""
    whole = ib.let("whole", (end - first) // _LANES)
    with (
        ib.for_range(0, whole, name="vector") as vector,
        ib.for_range(0, _LANES, name="lane", kind="vectorized") as lane,
    ):
        put(first + vector * _LANES + lane)
    with ib.for_range(first + whole * _LANES, end, name="element") as element:
        put(element)


def _scattered(
    data: Tensor, indices: Tensor, updates: Tensor, mode: str, most: Any, write: Callable[..., None]
) -> Tensor:
    """A copy of `data` into which `write` puts the updates, up to `most` of them into one element."""
    few = isinstance(most, IntImm) and most.value <= _FEW
    keep_lost = mode == "add" and data.dtype.is_float and not few

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        source, where, values, result = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        copy_elements(ib, source, result)
        write(ib, where, values, _kahan(ib, result) if keep_lost else _plain(result, mode))
        return ib.get()

    inputs = [data, indices, updates]
    return te.extern(data.shape, inputs, body, name="T_scatter", dtype=data.dtype, tag=tag.EXTERN)


def _plain(result: BufferVar, mode: str) -> Put:
    """A function that combines an element of `result` with an update as `mode` says."""
    combine = _COMBINE[mode]

    def put(element: tuple[Any, ...], update: Any) -> None:
        result[element] = combine(result[element], update)

    return put


def _kahan(ib: IRBuilder, result: BufferVar) -> Put:
    """A function that adds an update to an element of `result`; the error of its sum is kept in memory as large as the
    result.
    """
    lost = ib.allocate(str(result.dtype), result.buffer.shape, "lost")
    clear_elements(ib, lost)

    def put(element: tuple[Any, ...], update: Any) -> None:
        old = ib.let("old", result[element])
        more = ib.let("more", update - lost[element])
        total = ib.let("total", old + more)
        finite = tir.abs(total) < tir.const(math.inf, total.dtype)  # of an infinite sum nothing is lost, or NaN
        lost[element] = tir.select(finite, (total - old) - more, tir.const(0, total.dtype))
        result[element] = total

    return put


def _from_back(index: Any, size: Any) -> Any:
    return tir.select(index < tir.const(0, index.dtype), index + tir.convert(size).astype(index.dtype), index)


def _inside(index: Any, size: Any) -> Any:
    return tir.all(index >= tir.const(0, index.dtype), index < tir.convert(size).astype(index.dtype))
