"""Scatters: updates written to, or combined with, the elements of a tensor that indices name.

The tensor is copied and the updates follow one after the other, in order: of several for one element the last counts,
and sums are the same for any number of workers. Workers share what cannot meet: for scatters along an axis what lies
before it, for slices parts of the slices. Negative indices count from the back; one out of range names nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.tir.buffer import Buffer
from tilewright.tir.ir_builder import BufferVar, IRBuilder
from tilewright.tir.stmt import Stmt
from tilewright.topi import tag
from tilewright.topi.loops import copy_elements, count, for_each
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

#: Elements of a slice that one worker takes at a time, and of one step.
_PART, _LANES = 64, 16


def scatter_elements(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, mode: str = "update") -> Tensor:
    """out[i, …, indices[i, k, …], …] takes updates[i, k, …], k along `axis`; other axes of the updates may be shorter.

    Of several updates of one element the last counts (`mode` "update"), or all are combined with it (add, mul, min,
    max).
    """
    at = normalize_axis(axis, data.ndim)
    combine = _COMBINE[mode]

    def write(ib: IRBuilder, where: BufferVar, values: BufferVar, result: BufferVar) -> None:
        before, behind = indices.shape[:at], indices.shape[at:]
        with for_each(ib, before, kind="parallel") as outer, for_each(ib, behind) as inner:
            place = (*outer, *inner)
            index = ib.let("index", _from_back(where[place], data.shape[at]))
            with ib.if_scope(_inside(index, data.shape[at])):
                element = (*outer, as_index(index), *inner[1:])
                result[element] = combine(result[element], values[place])

    return _scattered(data, indices, updates, write)


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """Slices of `data` at the coordinates in the first axis of `indices` [M, …] take `updates` […, data's other axes].

    `mode` as in `scatter_elements`.
    """
    depth = int(indices.shape[0].value)  # type: ignore[attr-defined]
    many, rest = indices.shape[1:], data.shape[depth:]
    combine = _COMBINE[mode]

    def write(ib: IRBuilder, where: BufferVar, values: BufferVar, result: BufferVar) -> None:
        size = count(rest)
        with ib.for_range(0, (size + (_PART - 1)) // _PART, name="part", kind="parallel") as part:
            first = ib.let("first", part * _PART)
            end = ib.let("end", tir.minimum(first + _PART, size))
            with for_each(ib, many) as step:
                found = [ib.let("index", _from_back(where[(d, *step)], data.shape[d])) for d in range(depth)]
                inside = [_inside(index, data.shape[d]) for d, index in enumerate(found)]
                with ib.if_scope(tir.all(*inside) if inside else tir.const(True)):
                    slice_ = [as_index(index) for index in found]

                    def put(element: Any) -> None:
                        own = unflatten_index(element, rest)
                        result[(*slice_, *own)] = combine(result[(*slice_, *own)], values[(*step, *own)])

                    _in_vectors(ib, first, end, put)

    return _scattered(data, indices, updates, write)


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


def _scattered(data: Tensor, indices: Tensor, updates: Tensor, write: Callable[..., None]) -> Tensor:
    """A copy of `data` into which `write` puts the updates."""

    def body(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
        ib = tir.ir_builder.create()
        source, where, values, result = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        copy_elements(ib, source, result)
        write(ib, where, values, result)
        return ib.get()

    inputs = [data, indices, updates]
    return te.extern(data.shape, inputs, body, name="T_scatter", dtype=data.dtype, tag=tag.EXTERN)


def _from_back(index: Any, size: Any) -> Any:
    return tir.select(index < tir.const(0, index.dtype), index + tir.convert(size).astype(index.dtype), index)


def _inside(index: Any, size: Any) -> Any:
    return tir.all(index >= tir.const(0, index.dtype), index < tir.convert(size).astype(index.dtype))
