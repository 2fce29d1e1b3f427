"""Scaled dot-product attention in stages that a schedule can run block by block, without the matrix of all scores."""

from __future__ import annotations

import math
from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.conv2d import sum_dtype
from tilewright.topi.nn.softmax import share
from tilewright.topi.shapes import simplified
from tilewright.topi.util import extents

#: Scores of a row are padded to a multiple of this, so that vectors of any target leave no tail.
SCORE_ALIGNMENT = 16
#: The same where the number of scores is symbolic: panels of two vectors of any target then divide it too.
SYMBOLIC_ALIGNMENT = 32


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
    columns = extents(value)[2]
    masked = masked_scores(scores_of(query, key), mask, scale, causal, columns)
    exponentials, total = row_softmax(masked)
    attrs = {"out_layout": out_layout, "scale": scale, "causal": causal}
    return _normalized(_weighted(exponentials, value, attrs), total, query.dtype, out_layout)


def scores_of(query: Tensor, key: Tensor) -> Tensor:
    """query key^T, [B, H, M, N padded]."""
    batch, heads, rows, depth = extents(query)
    _, shared, columns, _ = extents(key)
    padded = padded_scores(columns)
    wide, group = sum_dtype(query, ""), heads // shared
    q, k = packed(query, "packed_query"), packed_columns(key, padded, wide, "packed_key")
    d = te.reduce_axis((0, depth), name="d")
    return te.compute(
        (batch, heads, rows, padded),
        lambda b, h, r, c: te.sum(q(b, h, r, d) * k(b, h // group, d, c), axis=d),
        name="scores",
        tag=tag.ATTENTION_SCORES,
    )


def padded_scores(columns: Any) -> Any:
    """The scores of a row with the padding behind `columns`, of which an expression is symbolic."""
    step = SCORE_ALIGNMENT if isinstance(columns, int) else SYMBOLIC_ALIGNMENT
    return simplified((columns + (step - 1)) // step * step)


def _weighted(exponentials: Tensor, value: Tensor, attrs: dict[str, Any]) -> Tensor:
    """exponentials value, [B, H, M, E]."""
    batch, heads, rows, _ = extents(exponentials)
    _, shared, columns, width = extents(value)
    v, group = packed(value, "packed_value"), heads // shared
    j = te.reduce_axis((0, columns), name="j")
    return te.compute(
        (batch, heads, rows, width),
        lambda b, h, r, c: te.sum(exponentials(b, h, r, j) * v(b, h // group, j, c), axis=j),
        name="attention",
        tag=tag.ATTENTION,
        attrs=attrs,
    )


def _normalized(product: Tensor, total: Tensor, dtype: str, out_layout: str) -> Tensor:
    """The product divided by the sums of its rows, in the layout and type of the result."""
    sizes = dict(zip("BHSD", extents(product), strict=True))
    one = tir.const(1.0, total.dtype)

    def element(*i: Any) -> Any:
        b, h, r, c = (i[out_layout.index(letter)] for letter in "BHSD")
        return (product(b, h, r, c) * (one / total(b, h, r))).astype(dtype)

    shape = [sizes[letter] for letter in out_layout]
    return te.compute(shape, element, name="attention_output", tag=tag.INJECTIVE)


def packed(source: Tensor, name: str) -> Tensor:
    """A copy, in the type that is summed in."""
    wide = sum_dtype(source, "")
    return te.compute(source.shape, lambda *i: source(*i).astype(wide), name=name, tag=tag.INJECTIVE)


def packed_columns(source: Tensor, padded: Any, wide: str, name: str) -> Tensor:
    """The keys [B, G, N, D] as columns, [B, G, D, padded], behind the last zeros; where N is symbolic the last again.

    So a vector of them needs no test. The scores of what is behind the last are overwritten (`masked_scores`).
    """
    batch, shared, columns, depth = extents(source)
    zero = tir.const(0.0, wide)

    def element(b: Any, h: Any, d: Any, c: Any) -> Any:
        position = c if isinstance(columns, int) else tir.minimum(c, columns - 1)
        inside = source(b, h, position, d).astype(wide)
        return inside if padded == columns or position is not c else tir.if_then_else(c < columns, inside, zero)

    return te.compute((batch, shared, depth, padded), element, name=name, tag=tag.INJECTIVE)


def masked_scores(scores: Tensor, mask: Tensor | None, scale: float, causal: bool, columns: Any) -> Tensor:
    """scores * scale + mask; minus infinity for what a row may not see and for the padding."""
    wide, padded = scores.dtype, extents(scores)[-1]
    hidden = tir.const(-math.inf, wide)

    def element(b: Any, h: Any, r: Any, c: Any) -> Any:
        score: Any = scores(b, h, r, c)
        score = score if scale == 1.0 else score * tir.const(scale, wide)
        if mask is not None:
            at = [0 if size == 1 else i for i, size in zip((b, h, r, c), extents(mask), strict=True)]
            bias = mask(*at).astype(wide)
            score = score + (bias if padded == columns else tir.if_then_else(c < columns, bias, hidden))
        elif padded != columns:
            score = tir.select(c < columns, score, hidden)
        return tir.select(c <= r, score, hidden) if causal else score

    return te.compute(scores.shape, element, name="masked_scores", tag=tag.INJECTIVE)


def row_softmax(masked: Tensor) -> tuple[Tensor, Tensor]:
    """exp(x - max) along the rows, and the sum of each row."""
    *outer, padded = masked.shape
    c = te.reduce_axis((0, padded), name="c")
    top = te.compute(outer, lambda b, h, r: te.max(masked(b, h, r, c), axis=c), name="softmax_maxelem")
    exponentials = te.compute(
        masked.shape, lambda b, h, r, i: share(masked(b, h, r, i) - top(b, h, r)), name="softmax_exp"
    )
    k = te.reduce_axis((0, padded), name="c")
    return exponentials, te.compute(
        outer, lambda b, h, r: te.sum(exponentials(b, h, r, k), axis=k), name="softmax_expsum"
    )
