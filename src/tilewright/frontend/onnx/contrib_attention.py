"""Attention in onnxruntime's domain com.microsoft: packed or separate projections, shared key heads, rotation."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.onnx.build import cast, concatenate, constant, reshape, scalar_like, slice_axis, transpose
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.nn import matmul
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.quantize import integer_product
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr


def heads_first(node: OnnxNode, x: Expr, heads: int) -> Expr:
    """[batch, length, heads * depth] as [batch, heads, length, depth]."""
    batch, length, width = node.shape(x)
    return transpose(reshape(node, x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def attend(
    node: OnnxNode, query: Expr, key: Expr, value: Expr, mask: Expr | None, scale: float, limit: float = 0.0
) -> Expr:
    """softmax(query key' * scale + mask) value, of [batch, heads, length, depth]; as [batch, length, heads * depth].

    A `limit` other than 0 squeezes the scores into its range: limit * tanh(score / limit).
    """
    batch, heads, rows, depth = node.shape(query)
    scores = matmul(node, query, transpose(key, (0, 1, 3, 2)))
    scores = op.multiply(scores, scalar_like(node, scale, scores))
    if limit:
        bound = scalar_like(node, limit, scores)
        scores = op.multiply(op.tanh(op.divide(scores, bound)), bound)
    if mask is not None:
        scores = op.add(scores, mask)
    mixed = matmul(node, op.nn.softmax(scores, axis=-1), value)
    depth = node.shape(value)[3]
    return reshape(node, transpose(mixed, (0, 2, 1, 3)), (batch, rows, heads * depth))


def padding_mask(node: OnnxNode, mask: Expr, lowest: float, columns: int, like: Expr) -> Expr:
    """What to add to the scores [batch, heads, rows, columns] for a mask of tokens to keep, or for their places.

    A vector holds the end of each sequence, or of all sequences the ends and then the beginnings.
    """
    rank, shape = node.rank(mask), node.shape(mask)
    if rank == 1:
        kept_tokens = _between(node, cast(node, mask, "int64"), columns)
        mask, rank, shape = kept_tokens, 2, node.shape(kept_tokens)
    wide = reshape(node, mask, {2: (shape[0], 1, 1, shape[-1]), 3: (shape[0], 1, *shape[1:])}.get(rank, shape))
    kept = cast(node, cast(node, wide, "bool"), node.dtype(like))
    return op.multiply(op.subtract(scalar_like(node, 1, like), kept), scalar_like(node, lowest, like))


def _between(node: OnnxNode, places: Expr, columns: int) -> Expr:
    """[batch, columns]: true from the beginning of a sequence up to its end."""
    (count,), batch = node.shape(places), node.shape()[0]
    if count not in (batch, 2 * batch):
        node.unsupported(
            f"a mask of {count} numbers for {batch} sequences: their ends, or ends and beginnings, are needed"
        )
    column = constant(np.arange(columns)[None], "int64")
    ends = reshape(node, slice_axis(node, places, 0, 0, batch), (batch, 1))
    kept = op.less(column, ends)
    if count == batch:
        return kept
    begins = reshape(node, slice_axis(node, places, 0, batch, 2 * batch), (batch, 1))
    return op.logical_and(kept, op.greater_equal(column, begins))


def causal_mask(node: OnnxNode, rows: int, columns: int, like: Expr, lowest: float) -> Expr:
    """What to add so that row i sees the columns up to columns - rows + i."""
    visible = np.tril(np.ones((rows, columns), bool), columns - rows)
    return constant(np.where(visible, 0.0, lowest)[None, None], node.dtype(like))


def _total_mask(node: OnnxNode, masks: list[Expr | None]) -> Expr | None:
    found = [mask for mask in masks if mask is not None]
    total = found[0] if found else None
    for mask in found[1:]:
        assert total is not None
        total = op.add(total, mask)
    return total


@converts("Attention", domain=MICROSOFT)
def convert_attention(node: OnnxNode) -> list[Expr | None]:
    """One product for query, key and value, then attention; with the keys and values of earlier steps if given."""
    projected = matmul(node, node[0], node[1])
    if node.has(2):
        projected = op.add(projected, node[2])
    return _attention(node, projected, 3, 4, 5)


@converts("QAttention", domain=MICROSOFT)
def convert_qattention(node: OnnxNode) -> list[Expr | None]:
    """`Attention` whose first product is of quantized input and weights."""
    product = integer_product(node, node[0], node[1], 6, 7)
    scale = op.multiply(node[3], node[4])
    return _attention(node, op.add(op.multiply(op.cast(product, dtype="float32"), scale), node[2]), 5, 8, None)


def _attention(node: OnnxNode, projected: Expr, mask_at: int, past_at: int, bias_at: int | None) -> list[Expr | None]:
    """Attention of the query, key and value that stand side by side in `projected`; the rest by input number."""
    heads = int(node.require("num_heads"))
    lowest = float(node.attr("mask_filter_value", -10000.0))
    node.choice("do_rotary", 0, (0,))
    node.ignore("past_present_share_buffer")
    width = node.shape(projected)[2]
    sizes = node.attr("qkv_hidden_sizes") or [width // 3] * 3
    ends = np.cumsum(sizes).tolist()
    query, key, value = (
        heads_first(node, slice_axis(node, projected, 2, end - size, end), heads) for size, end in zip(sizes, ends)
    )
    present: Expr | None = None
    if node.has(past_at):
        past = node[past_at]
        parts = [reshape(node, slice_axis(node, past, 0, i, i + 1), node.shape(past)[1:]) for i in (0, 1)]
        key, value = concatenate([parts[0], key], 2), concatenate([parts[1], value], 2)
    if node.wants(1):
        present = concatenate([op.expand_dims(part, axis=0, num_newaxis=1) for part in (key, value)], 0)
    rows, columns = node.shape(query)[2], node.shape(key)[2]
    mask = padding_mask(node, node[mask_at], lowest, columns, query) if node.has(mask_at) else None
    causal = causal_mask(node, rows, columns, query, lowest) if node.attr("unidirectional", 0) else None
    bias = node[bias_at] if bias_at is not None and node.has(bias_at) else None
    scale = float(node.attr("scale", 0.0)) or node.shape(query)[3] ** -0.5
    return [attend(node, query, key, value, _total_mask(node, [mask, causal, bias]), scale), present]


@converts("MultiHeadAttention", domain=MICROSOFT)
def convert_multi_head_attention(node: OnnxNode) -> list[Expr | None]:
    """Attention of projected query, key and value, with a bias on each, a padding mask, a score bias and a past."""
    heads = int(node.require("num_heads"))
    lowest = float(node.attr("mask_filter_value", -10000.0))
    query, key, value = _projected(node, heads)
    if node.has(6):
        key, value = concatenate([node[6], key], 2), concatenate([node[7], value], 2)
    rows, columns = node.shape(query)[2], node.shape(key)[2]
    mask = padding_mask(node, node[4], lowest, columns, query) if node.has(4) else None
    causal = causal_mask(node, rows, columns, query, lowest) if node.attr("unidirectional", 0) else None
    bias = node[5] if node.has(5) else None
    scale = float(node.attr("scale", 0.0)) or node.shape(query)[3] ** -0.5
    result = attend(node, query, key, value, _total_mask(node, [mask, causal, bias]), scale)
    return [result, key if node.wants(1) else None, value if node.wants(2) else None]


def _projected(node: OnnxNode, heads: int) -> tuple[Expr, Expr, Expr]:
    """Query, key and value by heads, from three inputs or from packed ones, their bias added."""
    if not node.has(1) and node.rank() == 5:
        batch, length, count, _, depth = node.shape()
        packed = transpose(node[0], (3, 0, 2, 1, 4))
        query, key, value = (
            reshape(node, slice_axis(node, packed, 0, i, i + 1), (batch, count, length, depth)) for i in range(3)
        )
        return query, key, value
    if node.has(2):
        inputs = [node[0], node[1], node[2]]
    else:
        batch, length, count, _, depth = node.shape(1)
        packed = transpose(node[1], (3, 0, 2, 1, 4))
        halves = [slice_axis(node, packed, 0, i, i + 1) for i in range(2)]
        inputs = [node[0], *[reshape(node, half, (batch, count, length, depth)) for half in halves]]
    if node.has(3):
        begin = 0
        for index, part in enumerate(inputs):
            if node.rank(part) == 3:
                width = node.shape(part)[2]
                inputs[index] = op.add(part, slice_axis(node, node[3], 0, begin, begin + width))
                begin += width
    split = [heads_first(node, part, heads) if node.rank(part) == 3 else part for part in inputs]
    return split[0], split[1], split[2]


@converts("RotaryEmbedding", domain=MICROSOFT)
@in_float32
def convert_rotary_embedding(node: OnnxNode) -> Expr:
    """Pairs of elements turned by an angle that grows with the position."""
    node.ignore("is_packed_batching")
    node.choice("scale", 1.0, (1.0,))
    pairs, heads = bool(node.attr("interleaved", 0)), int(node.attr("num_heads", 0))
    turned = int(node.attr("rotary_embedding_dim", 0))
    data = node[0]
    if node.rank() == 3:
        depth = node.shape()[2] // heads if heads else 2 * node.shape(2)[1]
        data = heads_first(node, data, node.shape()[2] // depth)
    length = node.shape(data)[2]
    places = cast(node, node[1], "int64")
    if node.rank(1) == 1:
        places = op.add(reshape(node, places, (1, 1)), constant(np.arange(length)[None], "int64"))
    result = rotate(node, data, places, node[2], node[3], pairs, turned)
    if node.rank() == 4:
        return result
    batch, heads, rows, depth = node.shape(result)
    return reshape(node, transpose(result, (0, 2, 1, 3)), (batch, rows, heads * depth))


def rotate(node: OnnxNode, data: Expr, places: Expr, cosines: Expr, sines: Expr, pairs: bool, turned: int = 0) -> Expr:
    """The first `turned` elements (0: all) of the last axis of [batch, heads, length, depth] turned in pairs.

    The caches [positions, turned / 2] hold the angles; neighbours are a pair, or elements of the two halves.
    """
    batch, heads, length, depth = node.shape(data)
    turned = turned or depth
    half = turned // 2
    part = slice_axis(node, data, 3, 0, turned)
    rows = node.shape(places)[0]
    cosine, sine = (
        reshape(
            node, op.take(slice_axis(node, cache, 1, 0, half), places, axis=0, mode="clip"), (rows, 1, length, half)
        )
        for cache in (cosines, sines)
    )
    if pairs:
        split = reshape(node, part, (batch, heads, length, half, 2))
        first, second = (
            reshape(node, slice_axis(node, split, 4, i, i + 1), (batch, heads, length, half)) for i in (0, 1)
        )
    else:
        first, second = slice_axis(node, part, 3, 0, half), slice_axis(node, part, 3, half, turned)
    real = op.subtract(op.multiply(first, cosine), op.multiply(second, sine))
    imaginary = op.add(op.multiply(second, cosine), op.multiply(first, sine))
    if pairs:
        stacked = concatenate([op.expand_dims(value, axis=4, num_newaxis=1) for value in (real, imaginary)], 4)
        result = reshape(node, stacked, (batch, heads, length, turned))
    else:
        result = concatenate([real, imaginary], 3)
    return result if turned == depth else concatenate([result, slice_axis(node, data, 3, turned, depth)], 3)
