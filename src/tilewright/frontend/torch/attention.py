"""Scaled dot product attention and the layer of several heads."""

from __future__ import annotations

import math
from itertools import pairwise

from tilewright.frontend import idioms
from tilewright.frontend.builders.elements import causal_mask
from tilewright.frontend.builders.functions import gelu
from tilewright.frontend.builders.product import matmul
from tilewright.frontend.idioms import cast, index_axis, like, rank_of, reshape, shape_of, slice_axis, transpose
from tilewright.frontend.torch.activation import softmax
from tilewright.frontend.torch.build import element_type, extent_of
from tilewright.frontend.torch.nn import affine
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.random_numbers import dropped
from tilewright.frontend.torch.registry import converts
from tilewright.frontend.torch.selection import slice_of_run
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


@converts("aten.scaled_dot_product_attention", "aten._scaled_dot_product_flash_attention_for_cpu")
def convert_attention(node: TorchNode) -> Expr | list[Expr]:
    """softmax(q k^T * scale + mask) v, over heads; 0 for rows that the mask forbids altogether."""
    query, key, value = node["query"], node["key"], node["value"]
    key, value = (_for_each_head(part, query) for part in (key, value))
    scale = node.get("scale")
    factor = like(scale, query) if scale is not None else _usual_scale(query)
    scores = matmul(query * factor, key, transpose_right=True)
    mask = node.get("attn_mask")
    if node["is_causal"]:
        mask = causal_mask(shape_of(query)[-2], shape_of(key)[-2])
    if mask is None:
        made = matmul(_dropped(node, softmax(scores, rank_of(scores) - 1)), value)
        return _with_log_sum(node, made, scores)
    if element_type(mask).is_bool:
        scores = op.where(mask, scores, -math.inf)
    else:
        scores = scores + cast(mask, element_type(scores))
    safe = not node["is_causal"]  # a row of a causal mask sees the first key at least
    made = matmul(_dropped(node, softmax(scores, rank_of(scores) - 1, safe=safe)), value)
    return _with_log_sum(node, made, scores)


def _usual_scale(query: Expr) -> Expr:
    """1 over the square root of the width of a head, as a scalar."""
    width = shape_of(query)[-1]
    if isinstance(width, int):
        return like(1 / math.sqrt(width), query)
    return cast(op.rsqrt(cast(extent_of(width), "float64")), element_type(query))


def _for_each_head(part: Expr, query: Expr) -> Expr:
    """Keys or values, of which several heads of the query may share one; what PyTorch chooses a kernel by says so."""
    heads = [shape_of(one)[-3] if rank_of(one) > 2 else 1 for one in (query, part)]
    if not all(isinstance(count, int) for count in heads) or heads[1] == 1 or heads[0] == heads[1]:
        return part
    return op.repeat(part, repeats=heads[0] // heads[1], axis=rank_of(part) - 3)


def _dropped(node: TorchNode, weights: Expr) -> Expr:
    share = float(node["dropout_p"])
    return dropped(node, weights, share)[0] if share else weights


def _with_log_sum(node: TorchNode, made: Expr, scores: Expr) -> Expr | list[Expr]:
    """The result, and where PyTorch wants it, in its type, what the backward pass reads."""
    if not isinstance(node.value, tuple | list):
        return made
    return [made, _log_sum(cast(scores, node.dtype_at(1)))]


def _log_sum(scores: Expr) -> Expr:
    """The logarithm of the sum of exponentials of each row."""
    axis = (rank_of(scores) - 1,)
    peak = op.max(scores, axis=axis, keepdims=True)
    return op.squeeze(op.log(op.sum(op.exp(scores - peak), axis=axis, keepdims=True)) + peak, axis=axis)


@converts("aten._native_multi_head_attention")
def convert_multi_head_attention(node: TorchNode) -> list[Expr]:
    """The layer that PyTorch takes for inference of `MultiheadAttention`: its result, and weights on request."""
    made, weights = _heads(node, node["query"], node["key"], node["value"], node["num_head"])
    if not node["need_weights"]:
        return [made, op.zeros(shape=(0,), dtype=str(node.dtype))]
    return [made, op.mean(weights, axis=(1,)) if node["average_attn_weights"] else weights]


@converts("aten._transformer_encoder_layer_fwd")
def convert_encoder_layer(node: TorchNode) -> Expr:
    """The layer that PyTorch takes for inference of `TransformerEncoderLayer`."""

    def normed(value: Expr, position: int) -> Expr:
        gamma, beta = node[f"norm_weight_{position}"], node[f"norm_bias_{position}"]
        return op.nn.layer_norm(value, gamma, beta, axis=-1, epsilon=float(node["eps"]))

    def attended(value: Expr) -> Expr:
        return _heads(node, value, value, value, node["num_heads"])[0]

    def forward(value: Expr) -> Expr:
        wide = affine(value, node["ffn_weight_1"], node["ffn_bias_1"])
        wide = gelu(wide) if node["use_gelu"] else op.nn.relu(wide)
        return affine(wide, node["ffn_weight_2"], node["ffn_bias_2"])

    data = node["src"]
    if node["norm_first"]:
        data = data + attended(normed(data, 1))
        return data + forward(normed(data, 2))
    data = normed(data + attended(data), 1)
    return normed(data + forward(data), 2)


def _heads(node: TorchNode, query: Expr, key: Expr, value: Expr, count: int) -> tuple[Expr, Expr]:
    """Attention of several heads with the weights of `node`: the result, and the weights of each head."""
    width, weight, bias = node["embed_dim"], node["qkv_weight"], node["qkv_bias"]
    parts = []
    for position, data in enumerate((query, key, value)):
        rows = (position * width, (position + 1) * width)
        made = affine(data, slice_axis(weight, 0, *rows), slice_axis(bias, 0, *rows))
        batch, steps, _ = shape_of(made)
        parts.append(transpose(reshape(made, (batch, steps, count, width // count)), (0, 2, 1, 3)))
    scores = matmul(parts[0] * (1 / math.sqrt(width // count)), transpose(parts[1], (0, 1, 3, 2)))
    mask = node["mask"]
    if mask is not None:
        forbidden = cast(mask, "bool")  # of rows, of keys a sample, or of everything
        if node["mask_type"] == 1:
            forbidden = op.expand_dims(forbidden, axis=1, num_newaxis=2)
        scores = op.where(forbidden, -math.inf, scores)
    weights = softmax(scores, 3)
    joined = reshape(transpose(matmul(weights, parts[2]), (0, 2, 1, 3)), (*shape_of(query)[:2], width))
    return affine(joined, node["proj_weight"], node["proj_bias"]), weights


# Products of groups of rows with a matrix each: the layers of networks whose experts share the tokens among them.
@converts("transformers.grouped_mm_fallback", "aten._grouped_mm")
def convert_grouped_mm(node: TorchNode) -> Expr:
    """Rows [S, K] up to each of the offsets [E] times the matrix [E, K, N] of the group; zeros behind the last."""
    rows, matrices = node.get("input", node.get("self")), node.get("weight", node.get("mat2"))
    ends = node["offs"]
    if node.get("bias") is not None:
        node.unsupported("a bias")
    if ends is None:
        return matmul(rows, matrices)
    if (rank_of(rows), rank_of(matrices)) != (2, 3) or not isinstance(shape_of(matrices)[0], int):
        node.unsupported("groups of columns or of what is summed over")
    cuts = [None, *(index_axis(ends, 0, group) for group in range(shape_of(matrices)[0]))]
    parts = [
        matmul(slice_of_run(node, rows, 0, *cut, 1), index_axis(matrices, 0, group))
        for group, cut in enumerate(pairwise(cuts))
    ]
    zeros = idioms.full(0, node.shape, node.dtype)
    parts.append(slice_of_run(node, zeros, 0, cuts[-1], None, 1))
    return reshape(idioms.concatenate(parts, 0), node.shape)
