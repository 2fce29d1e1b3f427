"""Reductions over axes that several formats have, as functions of the data, `axis` and `keepdims`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.frontend.builders.functions import log_sum_exp
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

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


#: Reductions by name: of elements, of their magnitudes and squares, and of their exponentials.
REDUCTIONS: dict[str, Reduction] = {
    "sum": op.sum, "mean": op.mean, "max": op.max, "min": op.min, "prod": op.prod, "all": op.all, "any": op.any,
    "l1": _after(op.abs), "l2": _after(_square, op.sqrt), "sum_square": _after(_square),
    "log_sum": _after(_itself, op.log), "log_sum_exp": _log_sum_exp,
}  # fmt: skip
