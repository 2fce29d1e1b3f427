"""Scaled dot product attention and the layer of several heads."""

from __future__ import annotations

import math

import numpy as np

from tilewright.frontend.torch.activation import softmax
from tilewright.frontend.torch.build import cast, constant, element_type, like, rank_of, shape_of, transpose
from tilewright.frontend.torch.nn import matmul
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.random_numbers import dropped
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


@converts("aten.scaled_dot_product_attention", "aten._scaled_dot_product_flash_attention_for_cpu")
def convert_attention(node: TorchNode) -> Expr | list[Expr]:
    """softmax(q k^T * scale + mask) v, over heads; rows that the mask forbids altogether give 0."""
    query, key, value = node["query"], node["key"], node["value"]
    if node.get("enable_gqa") and shape_of(query)[-3] != shape_of(key)[-3]:
        times = shape_of(query)[-3] // shape_of(key)[-3]
        key, value = (op.repeat(part, repeats=times, axis=rank_of(part) - 3) for part in (key, value))
    scale = node.get("scale")
    scale = 1 / math.sqrt(shape_of(query)[-1]) if scale is None else scale
    swapped = (*range(rank_of(key) - 2), rank_of(key) - 1, rank_of(key) - 2)
    scores = matmul(op.multiply(query, like(scale, query)), transpose(key, swapped))
    mask = node.get("attn_mask")
    if node["is_causal"]:
        mask = _causal(node, query, key)
    if mask is None:
        made = matmul(_dropped(node, softmax(scores, rank_of(scores) - 1)), value)
        return [made, _log_sum(scores)] if isinstance(node.value, tuple | list) else made
    if element_type(mask).is_bool:
        scores = op.where(mask, scores, like(-math.inf, scores))
    else:
        scores = op.add(scores, cast(mask, element_type(scores)))
    made = matmul(_dropped(node, softmax(scores, rank_of(scores) - 1, safe=True)), value)
    return [made, _log_sum(scores)] if isinstance(node.value, tuple | list) else made


def _dropped(node: TorchNode, weights: Expr) -> Expr:
    share = float(node["dropout_p"])
    return dropped(node, weights, share)[0] if share else weights


def _log_sum(scores: Expr) -> Expr:
    """The logarithm of the sum of exponentials of each row, which the backward pass reads."""
    axis = (rank_of(scores) - 1,)
    peak = op.max(scores, axis=axis, keepdims=True)
    return op.squeeze(
        op.add(op.log(op.sum(op.exp(op.subtract(scores, peak)), axis=axis, keepdims=True)), peak), axis=axis
    )


def _causal(node: TorchNode, query: Expr, key: Expr) -> Expr:
    """True where the place of the key is not behind that of the query."""
    rows, columns = shape_of(query)[-2], shape_of(key)[-2]
    if isinstance(rows, int) and isinstance(columns, int):
        return Constant(np.tri(rows, columns, dtype=bool))
    first, second = (
        op.cumsum(op.broadcast_to(constant(1, "int64"), shape=(extent,)), axis=0) for extent in (rows, columns)
    )
    return op.less_equal(second, op.expand_dims(first, axis=1))
