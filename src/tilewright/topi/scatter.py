"""Scatters: updates written to, or combined with, the elements of a tensor that indices name.

A scatter is computed from the side of its result: each element looks for the updates that name it. What that costs is
one comparison for each pair of element and update; the updates themselves are read only where they match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.util import as_index, constant_shape, normalize_axis, unflatten_index

#: mode -> (combination of an element with an update, the reducer of several updates)
_COMBINE: dict[str, tuple[Callable[[Any, Any], Any], Callable[..., Any]]] = {
    "add": (tir.add, te.sum),
    "mul": (tir.multiply, te.prod),
    "min": (tir.minimum, te.min),
    "max": (tir.maximum, te.max),
}
MODES = ("update", *_COMBINE)

Match = Callable[..., tuple[Any, Any]]


def _from_back(index: Any, size: int) -> Any:
    index = as_index(index)
    return tir.select(index < 0, index + size, index)


def _scattered(data: Tensor, ranges: Sequence[Any], match: Match, mode: str, position: Any, read: Any) -> Tensor:
    """`data` with updates: `match(*indices)` gives (does an update name this element, the update)."""
    if mode == "update":

        def last(*i: Any) -> Any:
            named, _ = match(*i)
            return te.max(tir.select(named, position, tir.const(-1, "int32")), axis=list(ranges))

        found = te.compute(data.shape, last, name="last_update", tag=tag.COMM_REDUCE_IDX)

        def pick(*i: Any) -> Any:
            index = found(*i)
            return tir.if_then_else(index >= 0, read(tir.maximum(index, 0), *i), data(*i))

        return te.compute(data.shape, pick, name="T_scatter", tag=tag.INJECTIVE)
    combine, reducer = _COMBINE[mode]

    def total(*i: Any) -> Any:
        named, value = match(*i)
        return reducer(value, axis=list(ranges), where=named)

    gathered = te.compute(data.shape, total, name="scatter_updates", tag=tag.COMM_REDUCE)
    return te.compute(data.shape, lambda *i: combine(data(*i), gathered(*i)), name="T_scatter", tag=tag.ELEMWISE)


def scatter_elements(data: Tensor, indices: Tensor, updates: Tensor, axis: int = 0, mode: str = "update") -> Tensor:
    """out[i, …, indices[i, k, …], …] takes updates[i, k, …], k along `axis`; other axes of the updates may be shorter.

    Of several updates of one element the last counts (`mode` "update"), or all are combined with it (add, mul, min,
    max). Negative indices count from the back.
    """
    shape, at = constant_shape(data), normalize_axis(axis, data.ndim)
    sizes = constant_shape(indices)
    k = te.reduce_axis((0, sizes[at]), name="k")
    shorter = [d for d in range(data.ndim) if d != at and sizes[d] < shape[d]]

    def at_update(step: Any, i: Sequence[Any]) -> list[Any]:
        return [step if d == at else tir.minimum(v, sizes[d] - 1) if d in shorter else v for d, v in enumerate(i)]

    def match(*i: Any) -> tuple[Any, Any]:
        where = at_update(k.var, i)
        named = tir.eq(_from_back(indices(*where), shape[at]), i[at])
        inside = [tir.less(i[d], sizes[d]) for d in shorter]
        return tir.all(named, *inside), updates(*where)

    return _scattered(data, [k], match, mode, k.var, lambda step, *i: updates(*at_update(step, i)))


def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, mode: str = "update") -> Tensor:
    """Slices of `data` at the coordinates in the first axis of `indices` [M, …] take `updates` […, data's other axes].

    `mode` as in `scatter_elements`.
    """
    shape = constant_shape(data)
    depth, *many = constant_shape(indices)
    ranges = [te.reduce_axis((0, size), name=f"k{d}") for d, size in enumerate(many)]
    steps = [r.var for r in ranges]
    if not ranges:
        ranges = [te.reduce_axis((0, 1), name="k0")]
    position: Any = tir.const(0, "int32")
    for size, step in zip(many, steps):
        position = position * size + step

    def match(*i: Any) -> tuple[Any, Any]:
        named = [tir.eq(_from_back(indices(d, *steps), shape[d]), i[d]) for d in range(depth)]
        return tir.all(*named), updates(*steps, *i[depth:])

    def read(step: Any, *i: Any) -> Any:
        return updates(*unflatten_index(step, many), *i[depth:])

    return _scattered(data, ranges, match, mode, position, read)
