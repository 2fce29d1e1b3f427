"""Softmax in stages that a schedule can run row by row: maximum, exponentials, sum, division."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.util import accumulator_dtype, normalize_axis


def _row_reduce(x: Tensor, axis: int, reducer: Any, source: Any, name: str) -> Tensor:
    """`reducer` over `axis` of `source(*indices)`; the result has that axis removed."""
    k = te.reduce_axis((0, x.shape[axis]), name="k")
    shape = [s for d, s in enumerate(x.shape) if d != axis]

    def body(*i: Any) -> Any:
        return reducer(source(*i[:axis], k.var, *i[axis:]), axis=k)

    return te.compute(shape, body, name=name, tag=name)


def _row(indices: Any, axis: int) -> Any:
    return [i for d, i in enumerate(indices) if d != axis]


def share(x: Any) -> Any:
    """exp(x) of a difference to the largest of a row, and zero where that is no normal number.

    Beside the 1 of the largest it is nothing, and multiplying with denormal numbers takes processors many times as
    long: masks of -100, as windowed attention has, would change nothing.
    """
    smallest = math.log(np.finfo(x.dtype.numpy).tiny)
    return tir.select(x < tir.const(smallest, x.dtype), tir.const(0.0, x.dtype), tir.exp(x))


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x - max) / sum along `axis`. Stages: softmax_maxelem, softmax_exp, softmax_expsum, softmax_output.

    The sum, which is 1 at least, is inverted once and multiplied with, as a division takes many times as long.
    """
    at, wide = normalize_axis(axis, x.ndim), accumulator_dtype(x.dtype)
    top = _row_reduce(x, at, te.max, lambda *i: x(*i), "softmax_maxelem")
    e = te.compute(
        x.shape,
        lambda *i: share(x(*i).astype(wide) - top(*_row(i, at)).astype(wide)),
        name="softmax_exp",
        tag="softmax_exp",
    )
    total = _row_reduce(e, at, te.sum, lambda *i: e(*i), "softmax_expsum")
    return te.compute(
        x.shape,
        lambda *i: (e(*i) * (tir.const(1.0, wide) / total(*_row(i, at)))).astype(x.dtype),
        name="softmax_output",
        tag=tag.SOFTMAX,
        attrs={"axis": at},
    )


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """x - max - log(sum(exp(x - max))) along `axis`, in stages as `softmax`."""
    at, wide = normalize_axis(axis, x.ndim), accumulator_dtype(x.dtype)
    top = _row_reduce(x, at, te.max, lambda *i: x(*i), "softmax_maxelem")

    def shifted(*i: Any) -> Any:
        return x(*i).astype(wide) - top(*_row(i, at)).astype(wide)

    total = _row_reduce(x, at, te.sum, lambda *i: tir.exp(shifted(*i)), "softmax_expsum")
    return te.compute(
        x.shape,
        lambda *i: (shifted(*i) - tir.log(total(*_row(i, at)))).astype(x.dtype),
        name="log_softmax_output",
        tag=tag.LOG_SOFTMAX,
        attrs={"axis": at},
    )
