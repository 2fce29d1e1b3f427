"""Reductions over axes that several formats have, as functions of the data, `axis` and `keepdims`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.frontend.builders.functions import log_sum_exp
from tilewright.frontend.idioms import cast, dtype_of, full, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType

Reduction = Callable[..., Expr]


def _after(function: Callable[[Expr], Expr], then: Callable[[Expr], Expr] | None = None) -> Reduction:
    """The sum of a function of the elements, and a function of that."""

    def reduce(x: Expr, axis: Sequence[int], keepdims: bool) -> Expr:
        total = op.sum(function(x), axis=axis, keepdims=keepdims)
        return total if then is None else then(total)

    return reduce


def _itself(x: Expr) -> Expr:
    return x


def _square(x: Expr) -> Expr:
    return x * x


def _log_sum_exp(x: Expr, axis: Sequence[int], keepdims: bool) -> Expr:
    return log_sum_exp(x, tuple(axis), keepdims)


def p_norm(x: Expr, axis: Sequence[int], order: float, keepdims: bool) -> Expr:
    """The norm of order `order` over axes; 0 counts what is not 0, ±inf are the extrema."""
    over: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    if math.isinf(order):
        return (op.max if order > 0 else op.min)(op.abs(x), **over)
    if order == 0:
        return op.sum(cast(op.not_equal(x, 0), dtype_of(x)), **over)
    if order in (1, 2):
        return REDUCTIONS["l1" if order == 1 else "l2"](x, **over)
    return op.power(op.sum(op.power(op.abs(x), order), **over), 1 / order)


#: Reductions by name: of elements, of their magnitudes and squares, and of their exponentials.
REDUCTIONS: dict[str, Reduction] = {
    "sum": op.sum, "mean": op.mean, "max": op.max, "min": op.min, "prod": op.prod, "all": op.all, "any": op.any,
    "l1": _after(op.abs), "l2": _after(_square, op.sqrt), "sum_square": _after(_square),
    "log_sum": _after(_itself, op.log), "log_sum_exp": _log_sum_exp,
}  # fmt: skip


def in_top_k(scores: Expr, targets: Expr, count: int) -> Expr:
    """True for each row of `scores` of which fewer than `count` elements are above that at `targets`, an int32 one."""
    known = op.logical_and(targets >= 0, targets < shape_of(scores)[1])
    own = op.gather(scores, 1, op.expand_dims(op.where(known, targets, 0), axis=1))
    return op.logical_and(op.sum(cast(scores > own, "int32"), axis=(1,)) < count, known)


def segmented(kind: str, data: Expr, ids: Expr, count: int, infinite: bool = False) -> Expr:
    """The `sum`, `prod`, `max` or `min` of the rows of `data` in each of `count` segments, which `ids` [N] number.

    An empty one has the least or the largest number for its maximum or minimum, or an infinite one.
    """
    dtype = DType(dtype_of(data))
    least, most = dtype.extremes() if infinite else dtype.finite_limits()
    mode, empty = {"sum": ("add", 0), "prod": ("mul", 1), "max": ("max", least), "min": ("min", most)}[kind]
    table = full(empty, (count, *shape_of(data)[1:]), dtype_of(data))
    return op.scatter_nd(table, op.expand_dims(ids, axis=0), data, mode=mode)
