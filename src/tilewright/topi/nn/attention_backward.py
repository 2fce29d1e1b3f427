"""The gradient of attention in stages that a schedule can run head by head, which computes the scores again.

With weights P = softmax(query key^T scale + mask) and the gradient G of the result, G value^T is the gradient of P, and
S = P (G value^T - the sum of P (G value^T) along the row) scale that of query key^T. The gradients are S key of the
query, S^T query of the key and P^T G of the value (Dao, FlashAttention-2, 2023, section 2.3).
"""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.te import Tensor
from tilewright.topi import tag
from tilewright.topi.nn.attention import masked_scores, packed, packed_columns, row_softmax, scores_of
from tilewright.topi.util import extents


def attention_backward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    gradient: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    causal: bool = False,
) -> list[Tensor]:
    """The gradients of `query`, `key` and `value`, all [B, H, N, D], of `topi.nn.attention`, from that of its result.

    `gradient` is [B, H, N, D] too. `mask` and `causal` are those of `attention`.

    Stages: those of `attention` up to softmax_expsum, then attention_weights, weight_gradient, weighted_sum,
    score_gradient, and a product with its copy for each result: query_gradient, key_gradient, value_gradient.
    """
    scores, rows = scores_of(query, key), packed(gradient, "packed_gradient")
    weights = _weights(masked_scores(scores, mask, scale, causal, extents(key)[2]))
    of_scores = _score_gradient(weights, rows, value, scale)
    products = [
        _product(of_scores, packed(key, "rows_of_key"), "query_gradient", transposed=False),
        _product(of_scores, scores.op.input_tensors[0], "key_gradient", transposed=True),
        _product(weights, rows, "value_gradient", transposed=True),
    ]

    def element(*i: Any) -> tuple[Any, ...]:
        return tuple([product(*i).astype(query.dtype) for product in products])

    return list(te.compute(query.shape, element, "attention_backward", tag.ATTENTION_BACKWARD))


def _weights(masked: Tensor) -> Tensor:
    """The softmax of the scores, 0 for the padding: [B, H, N, N padded]."""
    exponentials, total = row_softmax(masked)
    one = tir.const(1.0, total.dtype)
    return te.compute(
        exponentials.shape,
        lambda b, h, r, c: exponentials(b, h, r, c) * (one / total(b, h, r)),
        name="attention_weights",
    )


def _score_gradient(weights: Tensor, rows: Tensor, value: Tensor, scale: float) -> Tensor:
    """The gradient of query key^T: [B, H, N, N padded], 0 for the padding."""
    *_, padded = extents(weights)
    width, wide = extents(value)[-1], weights.dtype
    columns = packed_columns(value, padded, wide, "packed_value")
    d = te.reduce_axis((0, width), name="d")
    product = te.compute(
        weights.shape, lambda b, h, r, c: te.sum(rows(b, h, r, d) * columns(b, h, d, c), axis=d), name="products"
    )
    copied = te.compute(weights.shape, lambda *i: product(*i), name="weight_gradient")
    c = te.reduce_axis((0, padded), name="c")
    mean = te.compute(
        weights.shape[:3],
        lambda b, h, r: te.sum(weights(b, h, r, c) * copied(b, h, r, c), axis=c),
        name="weighted_sum",
    )
    factor = tir.const(scale, wide)
    return te.compute(
        weights.shape,
        lambda b, h, r, c: weights(b, h, r, c) * (copied(b, h, r, c) - mean(b, h, r)) * factor,
        name="score_gradient",
    )


def _product(matrix: Tensor, rows: Tensor, name: str, transposed: bool) -> Tensor:
    """`matrix` [B, H, N, N padded], or its transpose, times `rows` [B, H, N, D]."""
    k = te.reduce_axis((0, extents(rows)[2]), name="k")
    product = te.compute(
        rows.shape,
        lambda b, h, r, c: te.sum(
            (matrix(b, h, k, r) if transposed else matrix(b, h, r, k)) * rows(b, h, k, c), axis=k
        ),
        name="product",
    )
    return te.compute(rows.shape, lambda *i: product(*i), name=name)
