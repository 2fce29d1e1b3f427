"""Scaled dot-product attention in stages that a schedule can run block by block, without the matrix of all scores."""

from __future__ import annotations

import math
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import sum_dtype
from tilewright.topi.util import constant_shape

#: Scores of a row are padded to a multiple of this, so that vectors of any target leave no tail.
SCORE_ALIGNMENT = 16


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    causal: bool = False,
    out_layout: str = "BHSD",
) -> Tensor:
    """softmax(query key^T scale + mask) value, the softmax along each row.

    `query` is [B, H, M, D], `key` [B, G, N, D], `value` [B, G, N, E]; H is a multiple of G, and neighbouring heads
    share keys. `mask` broadcasts to [B, H, M, N]; `causal` hides key j from row i < j. The result is [B, H, M, E], or
    [B, M, H, E] for the `out_layout` "BSHD".

    Stages: packed_query, packed_key (transposed, padded), packed_value, scores, masked_scores, softmax_maxelem,
    softmax_exp, softmax_expsum, attention (e times value), attention_output (divided by the sum).
    """
    batch, heads, rows, depth = constant_shape(query)
    _, shared, columns, width = constant_shape(value)
    padded = -(-columns // SCORE_ALIGNMENT) * SCORE_ALIGNMENT
    wide, group = sum_dtype(query, ""), heads // shared

    def packed(source: Tensor, name: str) -> Tensor:
        return te.compute(source.shape, lambda *i: source(*i).astype(wide), name=name, tag=tag.INJECTIVE)

    q, v = packed(query, "packed_query"), packed(value, "packed_value")
    k = _packed_key(key, padded, wide)
    d, j = te.reduce_axis((0, depth), name="d"), te.reduce_axis((0, columns), name="j")
    scores = te.compute(
        (batch, heads, rows, padded),
        lambda b, h, r, c: te.sum(q(b, h, r, d) * k(b, h // group, d, c), axis=d),
        name="scores",
        tag=tag.ATTENTION_SCORES,
    )
    exponentials, total = _row_softmax(_masked(scores, mask, scale, causal, columns))
    product = te.compute(
        (batch, heads, rows, width),
        lambda b, h, r, c: te.sum(exponentials(b, h, r, j) * v(b, h // group, j, c), axis=j),
        name="attention",
        tag=tag.ATTENTION,
        attrs={"out_layout": out_layout},
    )
    one = tir.const(1.0, wide)

    def normalized(b: Any, h: Any, r: Any, c: Any) -> Any:
        return (product(b, h, r, c) * (one / total(b, h, r))).astype(query.dtype)

    if out_layout == "BHSD":
        return te.compute((batch, heads, rows, width), normalized, name="attention_output", tag=tag.INJECTIVE)
    return te.compute(
        (batch, rows, heads, width),
        lambda b, r, h, c: normalized(b, h, r, c),
        name="attention_output",
        tag=tag.INJECTIVE,
    )


def _packed_key(key: Tensor, padded: int, wide: str) -> Tensor:
    """The keys as columns, [B, G, D, padded], zeros behind the last."""
    batch, shared, columns, depth = constant_shape(key)
    zero = tir.const(0.0, wide)

    def element(b: Any, h: Any, d: Any, c: Any) -> Any:
        inside = key(b, h, c, d).astype(wide)
        return inside if padded == columns else tir.if_then_else(c < columns, inside, zero)

    return te.compute((batch, shared, depth, padded), element, name="packed_key", tag=tag.INJECTIVE)


def _masked(scores: Tensor, mask: Tensor | None, scale: float, causal: bool, columns: int) -> Tensor:
    """scores * scale + mask; minus infinity for what a row may not see and for the padding."""
    wide, padded = scores.dtype, constant_shape(scores)[-1]
    hidden = tir.const(-math.inf, wide)

    def element(b: Any, h: Any, r: Any, c: Any) -> Any:
        score: Any = scores(b, h, r, c)
        score = score if scale == 1.0 else score * tir.const(scale, wide)
        if mask is not None:
            at = [0 if size == 1 else i for i, size in zip((b, h, r, c), constant_shape(mask), strict=True)]
            bias = mask(*at).astype(wide)
            score = score + (bias if padded == columns else tir.if_then_else(c < columns, bias, hidden))
        elif padded != columns:
            score = tir.select(c < columns, score, hidden)
        return tir.select(c <= r, score, hidden) if causal else score

    return te.compute(scores.shape, element, name="masked_scores", tag=tag.INJECTIVE)


def _row_softmax(masked: Tensor) -> tuple[Tensor, Tensor]:
    """exp(x - max) along the rows, and the sum of each row."""
    *outer, padded = masked.shape
    c = te.reduce_axis((0, padded), name="c")
    top = te.compute(outer, lambda b, h, r: te.max(masked(b, h, r, c), axis=c), name="softmax_maxelem")
    exponentials = te.compute(
        masked.shape, lambda b, h, r, i: tir.exp(masked(b, h, r, i) - top(b, h, r)), name="softmax_exp"
    )
    k = te.reduce_axis((0, padded), name="c")
    return exponentials, te.compute(
        outer, lambda b, h, r: te.sum(exponentials(b, h, r, k), axis=k), name="softmax_expsum"
    )
