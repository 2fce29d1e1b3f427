"""Gradients of reductions: the gradient is given to every element that the result depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.relay.ir.expr import Call, Expr
from tilewright.relay.ir.registry import set_gradient
from tilewright.relay.op import reduce, tensor, transform
from tilewright.relay.op.gradients.common import constant_pieces, count, number, shape_of
from tilewright.topi.util import normalize_axes


def _axes(call: Call) -> tuple[int, ...]:
    return normalize_axes(call.attrs["axis"], len(shape_of(call.args[0])), call.attrs["exclude"])


def _kept_shape(call: Call) -> tuple[Any, ...]:
    axes = _axes(call)
    return tuple([1 if d in axes else size for d, size in enumerate(shape_of(call.args[0]))])


def _spread(call: Call, value: Expr) -> Expr:
    """`value`, of the shape of the result, with the reduced axes back as size 1, so that it broadcasts."""
    return transform.reshape(value, _kept_shape(call))


def _sum_gradient(call: Call, g: Expr) -> list[Expr | None]:
    return [transform.broadcast_to(_spread(call, g), shape_of(call.args[0]))]


def _mean_gradient(call: Call, g: Expr) -> list[Expr | None]:
    data = call.args[0]
    share = g * number(1 / max(1, count(data, _axes(call))), data)
    return [transform.broadcast_to(_spread(call, share), shape_of(data))]


def _extreme_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Shared equally among the elements that are the extreme."""
    data, axes = call.args[0], _axes(call)
    if not axes:
        return [g]
    hit = tensor.cast(tensor.equal(data, _spread(call, call)), str(call.checked_type.dtype))  # type: ignore[attr-defined]
    ties = reduce.sum(hit, axis=axes, keepdims=True)
    return [hit * (_spread(call, g) / ties)]


def _prod_gradient(call: Call, g: Expr) -> list[Expr | None]:
    """Times the product of the other elements, which is right where elements are 0."""
    data, axes = call.args[0], _axes(call)
    if not axes:
        return [g]
    shape = shape_of(data)
    order = [*[d for d in range(len(shape)) if d not in axes], *axes]
    leading = [shape[d] for d in order[: -len(axes)]]
    size = count(data, axes)
    rows = transform.reshape(transform.transpose(data, order), (*leading, size))
    others = _product_of_others(rows, leading, size)
    back = transform.transpose(
        transform.reshape(others, [shape[d] for d in order]), [order.index(d) for d in range(len(shape))]
    )
    return [back * _spread(call, g)]


def _product_of_others(rows: Expr, leading: Sequence[int], size: int) -> Expr:
    """Along the last axis, of `size` elements, the product of all elements but the one itself."""
    wide = transform.broadcast_to(transform.expand_dims(rows, -2), (*leading, size, size))
    own = tensor.equal(transform.expand_dims(tensor.arange(size, dtype="int32"), 1), tensor.arange(size, dtype="int32"))
    return reduce.prod(tensor.where(own, tensor.ones_like(wide), wide), axis=-1)


set_gradient("sum", _sum_gradient)
set_gradient("mean", _mean_gradient)
set_gradient("max", _extreme_gradient)
set_gradient("min", _extreme_gradient)
set_gradient("prod", _prod_gradient)
constant_pieces("argmax", "argmin")


def _cumsum_gradient(call: Call, g: Expr) -> list[Expr | None]:
    attrs = call.attrs
    return [transform.cumsum(g, attrs["axis"], attrs["exclusive"], not attrs["reverse"])]


set_gradient("cumsum", _cumsum_gradient)
