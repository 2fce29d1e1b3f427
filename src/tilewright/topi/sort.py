"""Sorting by rank: how many elements come before each, then which element has each rank."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.util import constant_shape, normalize_axis


def _before(a: Any, b: Any, ascending: bool) -> Any:
    """True where `a` sorts before `b`; NaN sorts behind everything."""
    earlier = tir.less(a, b) if ascending else tir.greater(a, b)
    if not a.dtype.is_float:
        return earlier
    return tir.any(earlier, tir.all(tir.isnan(b), tir.logical_not(tir.isnan(a))))


def argsort(x: Tensor, axis: int = -1, is_ascend: bool = True, dtype: str = "int32") -> Tensor:
    """Positions that sort x along `axis`, equal elements in order. Stages: rank, then the position of each rank."""
    at = normalize_axis(axis, x.ndim)
    size = constant_shape(x)[at]
    other, position = te.reduce_axis((0, size), name="k"), te.reduce_axis((0, size), name="p")

    def rank(*i: Any) -> Any:
        mine, theirs = x(*i), x(*i[:at], other.var, *i[at + 1 :])
        tied = tir.all(tir.logical_not(_before(mine, theirs, is_ascend)), tir.less(other.var, i[at]))
        earlier = tir.any(_before(theirs, mine, is_ascend), tied)
        return te.sum(earlier.astype("int32"), axis=other)

    ranks = te.compute(x.shape, rank, name="rank", tag=tag.COMM_REDUCE)

    def found(*i: Any) -> Any:
        hit = tir.eq(ranks(*i[:at], position.var, *i[at + 1 :]), i[at])
        return te.max(tir.select(hit, position.var, tir.const(0, "int32")), axis=position)

    order = te.compute(x.shape, found, name="order", tag=tag.COMM_REDUCE_IDX)
    return te.compute(x.shape, lambda *i: order(*i).astype(dtype), name="T_argsort", tag=tag.ELEMWISE)


def searchsorted(rows: Tensor, values: Tensor, right: bool = False, dtype: str = "int32") -> Tensor:
    """How many elements of the sorted last axis of `rows` lie before each value (with `right`, or are equal to it)."""
    k = te.reduce_axis((0, constant_shape(rows)[-1]), name="k")

    def count(*i: Any) -> Any:
        element, value = rows(*(i[:-1] if rows.ndim > 1 else ()), k.var), values(*i)
        earlier = tir.less_equal(element, value) if right else tir.less(element, value)
        return te.sum(earlier.astype("int32"), axis=k)

    counted = te.compute(values.shape, count, name="searched", tag=tag.COMM_REDUCE)
    return te.compute(values.shape, lambda *i: counted(*i).astype(dtype), name="T_searchsorted", tag=tag.ELEMWISE)
