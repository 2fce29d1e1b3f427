"""Attention in onnxruntime's domain com.microsoft: packed or separate projections, shared key heads, rotation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.builders.elements import split_axis
from tilewright.frontend.builders.functions import gelu
from tilewright.frontend.idioms import cast, concatenate, constant, index_axis, like, slice_axis
from tilewright.frontend.onnx.in_float32 import in_float32
from tilewright.frontend.onnx.nn import matmul
from tilewright.frontend.onnx.node import OnnxNode, reshape, transpose
from tilewright.frontend.onnx.quantize import integer_product
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


def heads_first(node: OnnxNode, x: Expr, heads: int) -> Expr:
    """[batch, length, heads * depth] as [batch, heads, length, depth]."""
    batch, length, width = node.shape(x)
    return transpose(reshape(node, x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def heads_last(node: OnnxNode, x: Expr) -> Expr:
    """[batch, heads, length, depth] as [batch, length, heads * depth]."""
    batch, heads, length, depth = node.shape(x)
    return reshape(node, transpose(x, (0, 2, 1, 3)), (batch, length, heads * depth))


def attend(
    node: OnnxNode, query: Expr, key: Expr, value: Expr, mask: Expr | None, scale: float, limit: float = 0.0
) -> Expr:
    """softmax(query key' * scale + mask) value, of [batch, heads, length, depth]; as [batch, length, heads * depth].

    A `limit` other than 0 squeezes the scores into its range: limit * tanh(score / limit).
    """
    scores = matmul(node, query, transpose(key, (0, 1, 3, 2))) * scale
    if limit:
        bound = like(limit, scores)
        scores = op.tanh(scores / bound) * bound
    if mask is not None:
        scores = scores + mask
    return heads_last(node, matmul(node, op.nn.softmax(scores, axis=-1), value))


def padding_mask(node: OnnxNode, mask: Expr, lowest: float, columns: int, like: Expr) -> Expr:
    """The addend of the scores [batch, heads, rows, columns] for a mask of tokens to keep, or for their positions.

    A vector holds the end of each sequence, or of all sequences the ends and then the beginnings.
    """
    rank, shape = node.rank(mask), node.shape(mask)
    if rank == 1:
        kept_tokens = _between(node, cast(mask, "int64"), columns)
        mask, rank, shape = kept_tokens, 2, node.shape(kept_tokens)
    wide = reshape(node, mask, {2: (shape[0], 1, 1, shape[-1]), 3: (shape[0], 1, *shape[1:])}.get(rank, shape))
    return (1 - cast(cast(wide, "bool"), node.dtype(like))) * lowest


def _between(node: OnnxNode, positions: Expr, columns: int) -> Expr:
    """[batch, columns]: true from the beginning of a sequence up to its end."""
    (count,), batch = node.shape(positions), node.shape()[0]
    if count not in (batch, 2 * batch):
        node.unsupported(
            f"a mask of {count} numbers for {batch} sequences: their ends, or ends and beginnings, are needed"
        )
    column = constant(np.arange(columns)[None], "int64")
    ends = reshape(node, slice_axis(positions, 0, 0, batch), (batch, 1))
    kept = column < ends
    if count == batch:
        return kept
    begins = reshape(node, slice_axis(positions, 0, batch, 2 * batch), (batch, 1))
    return op.logical_and(kept, column >= begins)


def causal_mask(node: OnnxNode, rows: int, columns: int, like: Expr, lowest: float) -> Expr:
    """The addend that lets row i see the columns up to columns - rows + i."""
    visible = np.tril(np.ones((rows, columns), bool), columns - rows)
    return constant(np.where(visible, 0.0, lowest)[None, None], node.dtype(like))


def _masked(node: OnnxNode, query: Expr, key: Expr, value: Expr, mask_at: int, bias_at: int | None) -> Expr:
    """Attention with the scale and the masks of `node`: padding and an addend by input number, and a causal one."""
    lowest = float(node.attr("mask_filter_value", -10000.0))
    rows, columns = node.shape(query)[2], node.shape(key)[2]
    masks = [padding_mask(node, node[mask_at], lowest, columns, query)] if node.has(mask_at) else []
    if node.attr("unidirectional", 0):
        masks.append(causal_mask(node, rows, columns, query, lowest))
    if bias_at is not None and node.has(bias_at):
        masks.append(node[bias_at])
    return attend(node, query, key, value, functools.reduce(op.add, masks) if masks else None, _scale(node, query))


def _scale(node: OnnxNode, query: Expr) -> float:
    return float(node.attr("scale", 0.0)) or node.shape(query)[3] ** -0.5


@converts("Attention", domain=MICROSOFT)
def convert_attention(node: OnnxNode) -> list[Expr | None]:
    """One product for query, key and value, then attention; with the keys and values of earlier steps if given."""
    projected = matmul(node, node[0], node[1])
    if node.has(2):
        projected = projected + node[2]
    return _attention(node, projected, 3, 4, 5)


@converts("QAttention", domain=MICROSOFT)
def convert_qattention(node: OnnxNode) -> list[Expr | None]:
    """`Attention` whose first product is of quantized input and weights."""
    product = integer_product(node, node[0], node[1], 6, 7)
    scale = node[3] * node[4]
    return _attention(node, op.cast(product, dtype="float32") * scale + node[2], 5, 8, None)


def _attention(node: OnnxNode, projected: Expr, mask_at: int, past_at: int, bias_at: int | None) -> list[Expr | None]:
    """Attention of the query, key and value that stand side by side in `projected`; the rest by input number."""
    heads = int(node.require("num_heads"))
    node.choice("do_rotary", 0, (0,))
    node.ignore("past_present_share_buffer")
    parts = split_axis(node, projected, 2, node.attr("qkv_hidden_sizes") or 3)
    query, key, value = (heads_first(node, part, heads) for part in parts)
    if node.has(past_at):
        key, value = (concatenate([index_axis(node[past_at], 0, i), part], 2) for i, part in enumerate((key, value)))
    present = op.stack((key, value), axis=0) if node.wants(1) else None
    return [_masked(node, query, key, value, mask_at, bias_at), present]


@converts("MultiHeadAttention", domain=MICROSOFT)
def convert_multi_head_attention(node: OnnxNode) -> list[Expr | None]:
    """Attention of projected query, key and value, with a bias on each, a padding mask, a score bias and a past."""
    query, key, value = _projected(node, int(node.require("num_heads")))
    if node.has(6):
        key, value = concatenate([node[6], key], 2), concatenate([node[7], value], 2)
    result = _masked(node, query, key, value, 4, 5)
    return [result, key if node.wants(1) else None, value if node.wants(2) else None]


def _projected(node: OnnxNode, heads: int) -> tuple[Expr, Expr, Expr]:
    """Query, key and value by heads, from three inputs or from packed ones, their bias added."""
    if not node.has(1) and node.rank() == 5:
        query, key, value = _unpacked_heads(node[0], 3)
        return query, key, value
    inputs = [node[0], node[1], node[2]] if node.has(2) else [node[0], *_unpacked_heads(node[1], 2)]
    if node.has(3):
        begin = 0
        for index, part in enumerate(inputs):
            if node.rank(part) == 3:
                width = node.shape(part)[2]
                inputs[index] = part + slice_axis(node[3], 0, begin, begin + width)
                begin += width
    split = [heads_first(node, part, heads) if node.rank(part) == 3 else part for part in inputs]
    return split[0], split[1], split[2]


def _unpacked_heads(packed: Expr, count: int) -> list[Expr]:
    """The parts [batch, heads, length, depth] of [batch, length, heads, `count`, depth]."""
    turned = transpose(packed, (3, 0, 2, 1, 4))
    return [index_axis(turned, 0, part) for part in range(count)]


@converts("RotaryEmbedding", domain=MICROSOFT)
@in_float32
def convert_rotary_embedding(node: OnnxNode) -> Expr:
    node.ignore("is_packed_batching")
    node.choice("scale", 1.0, (1.0,))
    pairs, heads = bool(node.attr("interleaved", 0)), int(node.attr("num_heads", 0))
    turned = int(node.attr("rotary_embedding_dim", 0))
    data = node[0]
    if node.rank() == 3:
        depth = node.shape()[2] // heads if heads else 2 * node.shape(2)[1]
        data = heads_first(node, data, node.shape()[2] // depth)
    length = node.shape(data)[2]
    positions = cast(node[1], "int64")
    if node.rank(1) == 1:
        positions = reshape(node, positions, (1, 1)) + constant(np.arange(length)[None], "int64")
    result = rotate(node, data, positions, node[2], node[3], pairs, turned)
    return result if node.rank() == 4 else heads_last(node, result)


def rotate(
    node: OnnxNode, data: Expr, positions: Expr, cosines: Expr, sines: Expr, pairs: bool, turned: int = 0
) -> Expr:
    """The first `turned` elements (0: all) of the last axis of [batch, heads, length, depth] turned in pairs.

    The caches [positions, turned / 2] hold the angles; neighbours are a pair, or elements of the two halves.
    """
    batch, heads, length, depth = node.shape(data)
    turned = turned or depth
    half = turned // 2
    part = slice_axis(data, 3, 0, turned)
    rows = node.shape(positions)[0]
    cosine, sine = (
        reshape(node, op.take(slice_axis(cache, 1, 0, half), positions, axis=0, mode="clip"), (rows, 1, length, half))
        for cache in (cosines, sines)
    )
    axis = 4 if pairs else 3  # of the two elements of a pair
    split = reshape(node, part, (batch, heads, length, *((half, 2) if pairs else (2, half))))
    first, second = (index_axis(split, axis, i) for i in (0, 1))
    parts = (first * cosine - second * sine, second * cosine + first * sine)
    result = reshape(node, op.stack(parts, axis=axis), (batch, heads, length, turned))
    return result if turned == depth else concatenate([result, slice_axis(data, 3, turned, depth)], 3)


# GroupQueryAttention of onnxruntime's domain: causal attention on fewer key heads, over a cache of earlier steps.
_LOWEST = float(np.finfo(np.float32).min)


@converts("GroupQueryAttention", domain=MICROSOFT)
def convert_group_query_attention(node: OnnxNode) -> list[Expr]:
    """Attention over the past and this step's keys and values; the caches that it returns hold both.

    `seqlens_k` says how long each sequence is, less one; where it is shorter than the cache, this step's keys follow
    the used part of it. A `total_sequence_length` that only a run can tell is taken to be past and step together.
    """
    node.ignore("kv_cache_bit_width")
    node.choice("smooth_softmax", 0, (0, -1))
    heads, shared = int(node.require("num_heads")), int(node.require("kv_num_heads"))
    query, key, value = _grouped(node, heads, shared)
    rows, past = node.shape(query)[2], node.shape(3)[2] if node.has(3) else 0
    used = _used(node, rows, past)
    if node.attr("do_rotary", 0):
        steps = constant(np.arange(rows)[None], "int64")
        positions = steps + (constant(past, "int64") if used is None else reshape(node, used, (-1, 1)))
        pairs = bool(node.attr("rotary_interleaved", 0))
        query, key = (rotate(node, part, positions, node[7], node[8], pairs) for part in (query, key))
    length = max(_total(node, rows, past), past)
    if used is not None:
        key, value = (_placed(node, *pair, used, length) for pair in ((node[3], key), (node[4], value)))
    elif past:
        key, value = concatenate([node[3], key], 2), concatenate([node[4], value], 2)
    mask = _mask(node, query, used, node.shape(key)[2])
    repeated = [_repeat_heads(node, part, heads // shared) for part in (key, value)]
    limit = float(node.attr("softcap", 0.0))
    return [attend(node, query, repeated[0], repeated[1], mask, _scale(node, query), limit), key, value]


def _total(node: OnnxNode, rows: Any, past: Any) -> Any:
    """The length of the longest sequence, this step included."""
    given = node.inputs[6] if node.has(6) else None
    return int(given.data.reshape(-1)[0]) if isinstance(given, Constant) else past + rows


def _used(node: OnnxNode, rows: Any, past: Any) -> Expr | None:
    """The used length of each sequence's cache, [batch] int64; None where it is all of it."""
    if not past or not node.has(5):
        return None
    lengths, total = node[5], _total(node, rows, past)
    whole = isinstance(lengths, Constant) and bool((lengths.data == past + rows - 1).all())
    if whole or (node.shape()[0] == 1 and total == past + rows):
        return None
    if total == rows:
        return constant(np.zeros(node.shape()[0]), "int64")
    counted = cast(reshape(node, lengths, (node.shape()[0],)), "int64")
    return op.maximum(counted - constant(rows - 1, "int64"), constant(0, "int64"))


def _placed(node: OnnxNode, past: Expr, fresh: Expr, used: Expr, length: int) -> Expr:
    """[batch, heads, length, depth]: the used part of the cache, `fresh` behind it, then zeros."""
    batch, heads, rows, depth = node.shape(fresh)
    stored = node.shape(past)[2]
    column, first = constant(np.arange(length)[None], "int64"), reshape(node, used, (batch, 1))
    moved = column - first + constant(stored, "int64")
    source = op.where(column < first, column, moved)
    inside = column < first + constant(rows, "int64")
    last = constant(stored + rows - 1, "int64")
    wide = op.broadcast_to(
        reshape(node, op.minimum(source, last), (batch, 1, length, 1)), shape=(batch, heads, length, depth)
    )
    picked = op.gather(concatenate([past, fresh], 2), axis=2, indices=wide)
    return op.where(reshape(node, inside, (batch, 1, length, 1)), picked, constant(0, node.dtype(fresh)))


def _mask(node: OnnxNode, query: Expr, used: Expr | None, columns: Any) -> Expr:
    """The addend of the scores: row i of a sequence sees the used part of its cache and this step up to i."""
    rows, window = node.shape(query)[2], int(node.attr("local_window_size", -1))
    if used is None:
        mask = causal_mask(node, rows, columns, query, _LOWEST)
        if window > 0:
            near = np.tril(np.ones((rows, columns), bool), columns - rows - window)
            mask = mask + constant(np.where(near, -1e30, 0.0)[None, None], node.dtype(query))
        return mask
    position = reshape(node, used, (-1, 1, 1, 1)) + constant(np.arange(rows).reshape(1, 1, -1, 1), "int64")
    column = constant(np.arange(columns).reshape(1, 1, 1, -1), "int64")
    seen = column <= position
    if window > 0:
        seen = op.logical_and(seen, column > position - constant(window, "int64"))
    return op.where(seen, constant(0, node.dtype(query)), constant(_LOWEST, node.dtype(query)))


def _grouped(node: OnnxNode, heads: int, shared: int) -> tuple[Expr, Expr, Expr]:
    """Query, key and value by heads, from three inputs or one packed one."""
    if node.has(1):
        query, key, value = node[0], node[1], node[2]
    else:
        depth = node.shape()[2] // (heads + 2 * shared)
        query, key, value = split_axis(node, node[0], 2, [count * depth for count in (heads, shared, shared)])
    return heads_first(node, query, heads), heads_first(node, key, shared), heads_first(node, value, shared)


def _repeat_heads(node: OnnxNode, x: Expr, times: int) -> Expr:
    """Each head `times` times in a row."""
    if times == 1:
        return x
    picked = np.repeat(np.arange(node.shape(x)[1]), times)
    return op.take(x, constant(picked, "int64"), axis=1, mode="clip")


# ------------ Mixtures of experts of onnxruntime's domain: each token goes through the few networks that a router picks
_ACTIVATIONS: dict[str, Callable[[OnnxNode, Expr], Expr]] = {
    "relu": lambda node, x: op.nn.relu(x),
    "gelu": lambda _node, x: gelu(x, approximate=True),
    "silu": lambda node, x: op.nn.silu(x),
    "identity": lambda node, x: x,
}


@converts("MoE", domain=MICROSOFT)
def convert_moe(node: OnnxNode) -> Expr:
    """act(x W1' + b1) [* (x W3' + b3)] W2' + b2 of the picked experts, weighed by the router's probabilities."""
    products = {i: functools.partial(op.nn.batch_matmul, tensor_b=node[i]) for i in (2, 4, 6) if node.has(i)}
    return _mixture(node, [(products.get(i), i + 1) for i in (2, 4, 6)])


@converts("QMoE", domain=MICROSOFT)
def convert_qmoe(node: OnnxNode, expert_weight_bits: int = 4) -> Expr:
    """`MoE` with weights of 4 or 8 bits, which stay packed, and a scale for each output of each expert."""
    if any(node.has(index) for index in range(11, len(node.inputs))):
        node.unsupported("zero points of the experts' weights")
    node.choice("block_size", 0, (0,))
    if expert_weight_bits not in (4, 8):
        node.unsupported(f"attribute expert_weight_bits={expert_weight_bits}; supported: 4, 8")
    product = functools.partial(_coded, node, expert_weight_bits)
    return _mixture(node, [(functools.partial(product, i) if node.has(i) else None, i + 2) for i in (2, 5, 8)])


def _coded(node: OnnxNode, bits: int, index: int, data: Expr) -> Expr:
    """The product of each expert's data [experts, tokens, in] with its codes; a row of weights is one block."""
    codes, scales = node.static(index, "weights").view(np.uint8), node.static(index + 1, "scales")
    parts = [
        op.nn.dense_blockwise(index_axis(data, 0, e), constant(w, "uint8"), constant(s, node.dtype()), bits=bits)
        for e, (w, s) in enumerate(zip(codes[:, :, None], scales[..., None], strict=True))
    ]
    return op.stack(parts, axis=0)


def _mixture(node: OnnxNode, layers: list[tuple[Callable[[Expr], Expr] | None, int]]) -> Expr:
    """The mixture of experts with three layers, each to [experts, tokens, out], and its bias by input number."""
    (first, first_bias), (second, second_bias), (gate, gate_bias) = layers
    assert first is not None and second is not None
    activation = _ACTIVATIONS[node.choice("activation_type", "relu", tuple(_ACTIVATIONS))]
    node.choice("use_sparse_mixer", 0, (0,))
    node.ignore("swiglu_fusion", "swiglu_limit", "activation_alpha", "activation_beta")
    shape = node.shape()
    tokens, experts = node.shape(1)
    flat = reshape(node, node[0], (1, tokens, shape[-1]))
    data = op.broadcast_to(flat, shape=(experts, tokens, shape[-1]))
    inner = activation(node, _biased(node, first(data), first_bias))
    if gate is not None:
        inner = inner * _biased(node, gate(data), gate_bias)
    result = _biased(node, second(inner), second_bias)
    weights = reshape(node, op.transpose(_routed(node), axes=(1, 0)), (experts, tokens, 1))
    mixed = op.sum(result * weights, axis=(0,), keepdims=False)
    return reshape(node, mixed, shape)


def _biased(node: OnnxNode, product: Expr, bias: int) -> Expr:
    return product + op.expand_dims(node[bias], axis=1) if node.has(bias) else product


def _routed(node: OnnxNode) -> Expr:
    """[tokens, experts]: the probabilities of the `k` most likely experts of each token, 0 for the others."""
    tokens, experts = node.shape(1)
    count = int(node.attr("k", 1))
    chances = op.nn.softmax(cast(node[1], "float32"), axis=-1)
    best = op.topk(chances, k=count, axis=-1, ret_type="indices", dtype="int32")
    positions = constant(np.arange(experts).reshape(1, 1, -1), "int32")
    picked = op.any(op.equal(reshape(node, best, (tokens, count, 1)), positions), axis=(1,))
    chances = op.where(picked, chances, constant(0.0, "float32"))
    if node.attr("normalize_routing_weights", 0):
        chances = chances / op.sum(chances, axis=(1,), keepdims=True)
    return cast(chances, node.dtype())
