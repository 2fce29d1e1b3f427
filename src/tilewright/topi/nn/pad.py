"""Padding as a stage of its own, so that a schedule may inline it or compute it at a tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.util import constant, extents


def pad(x: Tensor, pad_before: Sequence[int], pad_after: Sequence[int] | None = None, pad_value: Any = 0) -> Tensor:
    """x with `pad_value` added before and after each axis (negative widths crop); x itself if all are 0."""
    after = list(pad_before if pad_after is None else pad_after)
    before = list(pad_before)
    if not any(isinstance(width, tir.Expr) or width for width in (*before, *after)):
        return x
    shape = extents(x)
    value = constant(pad_value, x.dtype)

    def body(*indices: Any) -> Any:
        inside, where = [], []
        for i, b, a, size in zip(indices, before, after, shape):
            where.append(i - b)
            if isinstance(b, tir.Expr) or b > 0:
                inside.append(tir.greater_equal(i, b))
            if isinstance(a, tir.Expr) or a > 0:
                inside.append(tir.less(i, size + b))
        return tir.if_then_else(tir.all(*inside), x(*where), value) if inside else x(*where)

    return te.compute(
        [b + s + a for b, s, a in zip(before, shape, after)],
        body,
        name="data_pad",
        tag=tag.PAD,
        attrs={"pad_before": tuple(before), "pad_after": tuple(after)},
    )


def pad_by_phase(x: Tensor, padding: Sequence[int], columns: int, stride: int) -> Tensor:
    """Images [N, C, H, W] with zeros around (top, left, bottom, right), their columns split by remainder to `stride`.

    Element (n, c, y, p, q) of the result is column q * stride + p of the padded image, for the first `columns` columns.
    """
    n, c, h, w = extents(x)
    top, left, bottom, _ = padding
    zero = tir.const(0, x.dtype)

    def body(b: Any, f: Any, y: Any, p: Any, q: Any) -> Any:
        row, column = y - top, q * stride + p - left
        inside = [row >= 0] if top else []
        inside += [row < h] if bottom else []
        inside += [column >= 0] if left else []
        inside += [column < w] if -(-columns // stride) * stride > w + left else []
        value = x(b, f, row, column)
        return tir.if_then_else(tir.all(*inside), value, zero) if inside else value

    shape = (n, c, h + top + bottom, stride, -(-columns // stride))
    return te.compute(shape, body, name="data_pad", tag=tag.PAD, attrs={"pad_before": (0, 0, top, left)})


def mirror_pad(x: Tensor, pad_before: Sequence[int], pad_after: Sequence[int], mode: str) -> Tensor:
    """x continued past each end by its mirror image (``"reflect"``, the edge not repeated) or its ``"edge"``."""
    shape = extents(x)

    def source(i: Any, before: int, after: int, size: int) -> Any:
        index = i - before
        if mode == "edge":
            low = tir.maximum(index, 0) if before > 0 else index
            return tir.minimum(low, size - 1) if after > 0 else low
        low = tir.select(index < 0, -index, index) if before > 0 else index
        return tir.select(low >= size, 2 * (size - 1) - low, low) if after > 0 else low

    return te.compute(
        [b + s + a for b, s, a in zip(pad_before, shape, pad_after)],
        lambda *i: x(*[source(*parts) for parts in zip(i, pad_before, pad_after, shape)]),
        name=f"T_{mode}_pad",
        tag=tag.INJECTIVE,
    )
