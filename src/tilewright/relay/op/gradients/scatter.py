"""Gradients of scatters, one rule a way of combining, for both ways of naming elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.relay.ir.expr import Call, Constant, Expr
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.op import tensor, transform
from tilewright.relay.op.gather import gather, gather_nd
from tilewright.relay.op.gradients.common import number, shape_of, tensor_type
from tilewright.relay.op.scatter import scatter_elements, scatter_nd

#: scatter(data, updates, mode) and pick(data), the elements that the indices name
Scatter = Callable[[Expr, Expr, str], Expr]
Pick = Callable[[Expr], Expr]


def _replaced(call: Call, g: Expr, scatter: Scatter, pick: Pick, order: Expr) -> list[Expr | None]:
    """Elements that were replaced get nothing; of several updates of one element only the last counts."""
    data, _, updates = call.args
    kept = scatter(g, tensor.zeros_like(updates), "update")
    last = scatter(tensor.full(Constant(np.array(-1, "int32")), shape_of(data)), order, "update")
    counts = tensor.equal(pick(last), order)
    picked = pick(g)
    return [kept, None, tensor.where(counts, picked, tensor.zeros_like(updates))]


def _added(call: Call, g: Expr, scatter: Scatter, pick: Pick, order: Expr) -> list[Expr | None]:
    return [g, None, pick(g)]


def _multiplied(call: Call, g: Expr, scatter: Scatter, pick: Pick, order: Expr) -> list[Expr | None]:
    """Everything is a factor of its result; where a factor is 0 the quotient is not defined."""
    data, _, updates = call.args
    return [g * call / data, None, pick(g * call) / updates]


def _chosen(call: Call, g: Expr, scatter: Scatter, pick: Pick, order: Expr) -> list[Expr | None]:
    """Shared equally among what equals the extreme."""
    data, _, updates = call.args
    dtype = str(tensor_type(data).dtype)
    from_data = tensor.cast(tensor.equal(data, call), dtype)
    from_updates = tensor.cast(tensor.equal(updates, pick(call)), dtype)
    share = g / scatter(from_data, from_updates, "add")
    return [from_data * share, None, from_updates * pick(share)]


_RULES: dict[str, Callable[..., list[Expr | None]]] = {
    "update": _replaced,
    "add": _added,
    "mul": _multiplied,
    "min": _chosen,
    "max": _chosen,
}


def _positions(shape: tuple[Any, ...], axes: range) -> Expr:
    """The row-major number of each element over `axes`, the same for the rest of them."""
    sizes = [size if d in axes else 1 for d, size in enumerate(shape)]
    numbers = Constant(np.arange(int(np.prod(sizes)), dtype="int32").reshape(sizes))
    return transform.broadcast_to(numbers, shape)


def _elements_gradient(mode: str) -> Callable[[Call, Expr], list[Expr | None]]:
    def gradient(call: Call, g: Expr) -> list[Expr | None]:
        data, indices, updates = call.args
        axis = call.attrs["axis"] % len(shape_of(data))
        order = _positions(shape_of(updates), range(axis, axis + 1))
        rule = _RULES[call.attrs.get("reduction", mode)]
        return rule(
            call,
            g,
            lambda x, u, how: scatter_elements(x, indices, u, axis, how),
            lambda x: gather(x, axis, indices),
            order,
        )

    return gradient


def _nd_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data, indices, updates = call.args
    depth, *many = shape_of(indices)
    rows = [
        _from_back(transform.strided_slice(indices, (d,), (d + 1,), axes=(0,)), size)
        for d, size in enumerate(shape_of(data)[:depth])
    ]
    positions = transform.concatenate(rows, 0) if rows else indices
    order = _positions(shape_of(updates), range(len(many)))
    return _RULES[call.attrs["mode"]](
        call,
        g,
        lambda x, u, how: scatter_nd(x, positions, u, how),
        lambda x: gather_nd(x, positions),
        order,
    )


def _from_back(index: Expr, size: int) -> Expr:
    return tensor.where(tensor.less(index, number(0, index)), index + number(size, index), index)


set_gradient("scatter", _elements_gradient("update"))
set_gradient("scatter_add", _elements_gradient("add"))
set_gradient("scatter_elements", _elements_gradient("update"))
set_gradient("scatter_nd", _nd_gradient)
