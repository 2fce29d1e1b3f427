"""GroupQueryAttention of onnxruntime's domain: causal attention on fewer key heads, over a cache of earlier steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.frontend.onnx.build import cast, concatenate, constant, reshape, slice_axis
from tilewright.frontend.onnx.contrib_attention import attend, causal_mask, heads_first, rotate
from tilewright.frontend.onnx.node import OnnxNode
from tilewright.frontend.onnx.registry import MICROSOFT, converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr

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
        places = op.add(steps, constant(past, "int64") if used is None else reshape(node, used, (-1, 1)))
        pairs = bool(node.attr("rotary_interleaved", 0))
        query, key = (rotate(node, part, places, node[7], node[8], pairs) for part in (query, key))
    length = max(_total(node, rows, past), past)
    if used is not None:
        key, value = (_placed(node, *pair, used, length) for pair in ((node[3], key), (node[4], value)))
    elif past:
        key, value = concatenate([node[3], key], 2), concatenate([node[4], value], 2)
    mask = _mask(node, query, used, node.shape(key)[2])
    scale = float(node.attr("scale", 0.0)) or node.shape(query)[3] ** -0.5
    repeated = [_repeat_heads(node, part, heads // shared) for part in (key, value)]
    limit = float(node.attr("softcap", 0.0))
    return [attend(node, query, repeated[0], repeated[1], mask, scale, limit), key, value]


def _total(node: OnnxNode, rows: Any, past: Any) -> Any:
    """The length of the longest sequence, this step included."""
    given = node.inputs[6] if node.has(6) else None
    return int(given.data.reshape(-1)[0]) if isinstance(given, Constant) else past + rows


def _used(node: OnnxNode, rows: Any, past: Any) -> Expr | None:
    """How much of the cache each sequence uses, [batch] int64; None where it is all of it."""
    if not past or not node.has(5):
        return None
    lengths, total = node[5], _total(node, rows, past)
    whole = isinstance(lengths, Constant) and bool((lengths.data == past + rows - 1).all())
    if whole or (node.shape()[0] == 1 and total == past + rows):
        return None
    if total == rows:
        return constant(np.zeros(node.shape()[0]), "int64")
    counted = cast(node, reshape(node, lengths, (node.shape()[0],)), "int64")
    return op.maximum(op.subtract(counted, constant(rows - 1, "int64")), constant(0, "int64"))


def _placed(node: OnnxNode, past: Expr, fresh: Expr, used: Expr, length: int) -> Expr:
    """[batch, heads, length, depth]: the used part of the cache, `fresh` behind it, then zeros."""
    batch, heads, rows, depth = node.shape(fresh)
    stored = node.shape(past)[2]
    column, first = constant(np.arange(length)[None], "int64"), reshape(node, used, (batch, 1))
    moved = op.add(op.subtract(column, first), constant(stored, "int64"))
    source = op.where(op.less(column, first), column, moved)
    inside = op.less(column, op.add(first, constant(rows, "int64")))
    last = constant(stored + rows - 1, "int64")
    wide = op.broadcast_to(
        reshape(node, op.minimum(source, last), (batch, 1, length, 1)), shape=(batch, heads, length, depth)
    )
    picked = op.gather(concatenate([past, fresh], 2), axis=2, indices=wide)
    return op.where(reshape(node, inside, (batch, 1, length, 1)), picked, constant(0, node.dtype(fresh)))


def _mask(node: OnnxNode, query: Expr, used: Expr | None, columns: Any) -> Expr:
    """What to add to the scores: row i of a sequence sees what its cache uses and this step up to i."""
    rows, window = node.shape(query)[2], int(node.attr("local_window_size", -1))
    if used is None:
        mask = causal_mask(node, rows, columns, query, _LOWEST)
        if window > 0:
            near = np.tril(np.ones((rows, columns), bool), columns - rows - window)
            mask = op.add(mask, constant(np.where(near, -1e30, 0.0)[None, None], node.dtype(query)))
        return mask
    place = op.add(reshape(node, used, (-1, 1, 1, 1)), constant(np.arange(rows).reshape(1, 1, -1, 1), "int64"))
    column = constant(np.arange(columns).reshape(1, 1, 1, -1), "int64")
    seen = op.less_equal(column, place)
    if window > 0:
        seen = op.logical_and(seen, op.greater(column, op.subtract(place, constant(window, "int64"))))
    return op.where(seen, constant(0, node.dtype(query)), constant(_LOWEST, node.dtype(query)))


def _grouped(node: OnnxNode, heads: int, shared: int) -> tuple[Expr, Expr, Expr]:
    """Query, key and value by heads, from three inputs or one packed one."""
    if node.has(1):
        return heads_first(node, node[0], heads), heads_first(node, node[1], shared), heads_first(node, node[2], shared)
    depth = node.shape()[2] // (heads + 2 * shared)
    ends = np.cumsum([heads * depth, shared * depth, shared * depth]).tolist()
    starts = [0, *ends[:2]]
    parts = [slice_axis(node, node[0], 2, begin, end) for begin, end in zip(starts, ends)]
    return heads_first(node, parts[0], heads), heads_first(node, parts[1], shared), heads_first(node, parts[2], shared)


def _repeat_heads(node: OnnxNode, x: Expr, times: int) -> Expr:
    """Each head `times` times in a row."""
    if times == 1:
        return x
    picked = np.repeat(np.arange(node.shape(x)[1]), times)
    return op.take(x, constant(picked, "int64"), axis=1, mode="clip")
