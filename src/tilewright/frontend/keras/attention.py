"""Attention layers: of keys and values alone, of several heads, and of grouped heads."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.builders.elements import causal_mask
from tilewright.frontend.builders.product import einsum, matmul
from tilewright.frontend.idioms import cast, dtype_of, like, rank_of, shape_of, transpose
from tilewright.frontend.keras.core import masked_softmax
from tilewright.frontend.keras.layer import Layer
from tilewright.frontend.keras.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Constant, Expr


def _causal(rows: Any, columns: Any) -> Expr:
    return op.expand_dims(causal_mask(rows, columns), axis=0)


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """The conjunction of two masks, either of which may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return op.logical_and(first, second)


# ------------------------------------------------------------------------------------------------ without projections
@converts("Attention", "AdditiveAttention")
def convert_attention(
    layer: Layer, inputs: Sequence[Expr], mask: Any = None, return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:  # fmt: skip
    """Dot products, or sums through tanh (Bahdanau et al. 2015), as scores of values."""
    query, value, *rest = inputs
    key = rest[0] if rest else value
    masks = list(mask) if isinstance(mask, list | tuple) else [None, None]
    scores = _additive(layer, query, key) if layer.class_name == "AdditiveAttention" else _dot(layer, query, key)
    allowed: Expr | None = None if masks[1] is None else op.expand_dims(cast(masks[1], "bool"), axis=1)
    if use_causal_mask or layer.get("causal"):
        allowed = both(allowed, _causal(*shape_of(scores)[-2:]))
    if allowed is not None:
        large = 65504.0 if dtype_of(scores) == "float16" else 1e9
        hidden = op.logical_not(allowed)
        scores = scores - cast(hidden, dtype_of(scores)) * large
    weights = op.nn.softmax(scores, axis=-1)
    result = matmul(weights, value)
    if masks[0] is not None:
        kept = op.expand_dims(masks[0], axis=2)
        result = result * cast(kept, dtype_of(result))
        layer.set_mask(masks[0])
    return (result, weights) if return_attention_scores else result


def _dot(layer: Layer, query: Expr, key: Expr) -> Expr:
    scale = layer.own("scale")[0] if layer.get("use_scale") else None
    mode = layer.get("score_mode", "dot")
    if mode == "dot":
        scores = matmul(query, transpose(key, (0, 2, 1)))
        return scores * layer.cast(scale) if scale is not None else scores
    if mode != "concat":
        layer.bad(f"score_mode {mode!r}; there are dot and concat")
    names = ["scale", "concat_score_weight"] if layer.get("use_scale") else ["concat_score_weight"]
    *scales, weight = layer.weight(*names)
    total = op.expand_dims(query, axis=2) + op.expand_dims(key, axis=1)
    total = total * scales[0] if scales else total
    return weight * op.sum(op.tanh(total), axis=(-1,))


def _additive(layer: Layer, query: Expr, key: Expr) -> Expr:
    total = op.tanh(op.expand_dims(query, axis=2) + op.expand_dims(key, axis=1))
    if layer.get("use_scale", True):
        total = total * layer.weight("scale")[0]
    return op.sum(total, axis=(-1,))


# --------------------------------------------------------------------------------------------------- several heads
def _mask(
    layer: Layer, query: Expr, value: Expr, masks: Sequence[Any], attention_mask: Any, causal: bool
) -> Expr | None:
    """[B, T, S]: which values a query may look at."""
    query_mask, value_mask, key_mask = (None if mask is None else cast(mask, "bool") for mask in masks)
    allowed: Expr | None = None if query_mask is None else op.expand_dims(query_mask, axis=rank_of(query_mask))
    for mask in (value_mask, key_mask):
        if mask is not None:
            allowed = both(allowed, op.expand_dims(mask, axis=rank_of(mask) - 1))
    rows, columns = shape_of(query)[1], shape_of(value)[1]
    if causal:
        allowed = both(allowed, _causal(rows, columns))
    window = layer.get("sliding_window")
    if window is not None:
        if not isinstance(rows, int) or not isinstance(columns, int):
            layer.unsupported("a sliding window over sequences of symbolic length; pass it with input_shapes")
        near = np.abs(np.arange(rows)[:, None] - np.arange(columns)) < int(window)
        allowed = both(allowed, Constant(near[None]))
    return both(cast(attention_mask, "bool") if isinstance(attention_mask, Expr) else None, allowed)


def _prepared(
    layer: Layer, query: Expr, value: Expr, key: Any, masks: Sequence[Any], attention_mask: Any, causal: bool
) -> tuple[list[Expr], Expr | None, Expr | None]:
    """Query, key and value projected; which values a query may look at; and a gate on the result, or None."""
    given = isinstance(key, Expr)
    known = (*masks[:2], masks[2] if given else None)
    parts = ((query, "query"), (key if given else value, "key"), (value, "value"))
    projected = [_project(layer, part, name) for part, name in parts]
    gate = _project(layer, query, "gate") if layer.get("use_gate") else None
    return projected, _mask(layer, query, value, known, attention_mask, causal), gate


@converts("MultiHeadAttention")
def convert_multi_head_attention(
    layer: Layer, query: Expr, value: Expr, key: Any = None, query_mask: Any = None, value_mask: Any = None,
    key_mask: Any = None, attention_mask: Any = None, return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:  # fmt: skip
    """Vaswani et al. 2017; the attention goes over all axes between batch and features, or `attention_axes`."""
    rank = rank_of(query)
    axes = layer.get("attention_axes")
    axes = list(range(1, rank - 1)) if axes is None else [int(axis) % rank for axis in _list(axes)]
    masks = (query_mask, value_mask, key_mask)
    (q, k, v), allowed, gate = _prepared(layer, query, value, key, masks, attention_mask, use_causal_mask)
    if query_mask is not None:
        layer.set_mask([query_mask, None] if return_attention_scores else query_mask)
    scale = like(1 / math.sqrt(int(layer["key_dim"])), q)
    letters = string.ascii_letters
    head, width = letters[rank], letters[rank + 1]
    other = {axis: letters[rank + 2 + position] for position, axis in enumerate(axes)}
    own = letters[: rank - 1]
    keys = "".join(other.get(axis, own[axis]) for axis in range(rank - 1))
    kept = "".join(own[axis] for axis in range(rank - 1) if axis not in axes)
    score_term = kept + head + "".join(own[axis] for axis in axes) + "".join(other[axis] for axis in axes)
    scores = einsum(f"{keys}{head}{width},{own}{head}{width}->{score_term}", [k, q * scale])
    if allowed is not None:
        missing = rank_of(scores) - rank_of(allowed)
        position = rank_of(allowed) - 2 * len(axes)
        allowed = op.expand_dims(allowed, axis=position, num_newaxis=missing) if missing > 0 else allowed
    over = tuple(range(rank_of(scores) - len(axes), rank_of(scores)))
    weights = _shares(layer, scores, allowed, over, return_attention_scores or rank_of(q) != 4)
    made = einsum(f"{score_term},{keys}{head}{width}->{own}{head}{width}", [weights, v])
    return _with_scores(_output(layer, made, gate), weights, return_attention_scores)


def _shares(layer: Layer, scores: Expr, allowed: Expr | None, axes: tuple[int, ...], spelled_out: bool) -> Expr:
    """Softmax of what is allowed.

    A query that may look at nothing gets nothing where Keras spells attention out, for its dropout or to return the
    scores, and the mean of all values where it calls the operation.
    """
    if spelled_out or float(layer.get("dropout") or 0) > 0 or allowed is None:
        return masked_softmax(scores, allowed, axes)
    least = -0.7 * (65504.0 if dtype_of(scores) == "float16" else 3.4028234663852886e38)
    return functions.stable_softmax(op.where(allowed, scores, like(least, scores)), axes)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _with_scores(made: Expr, scores: Expr, wanted: bool) -> Any:
    return (made, scores) if wanted else made


def _attribute(layer: Layer, name: str) -> str:
    """The attribute of the layer inside: the public name, or the private one where there is no other."""
    private = layer.class_name != "MultiHeadAttention" or name == "gate_dense"
    return f"_{name}" if private else name


def _project(layer: Layer, value: Expr, name: str) -> Expr:
    """[…, features] to [… , heads, width]."""
    inner = layer.inner("EinsumDense", _attribute(layer, f"{name}_dense"), name, {})
    if inner.quantization:
        layer.unsupported("quantized attention")
    return _product(layer, inner, value, 1)


def _product(layer: Layer, inner: Layer, value: Expr, axes: int) -> Expr:
    """The product of the last `axes` axes of `value` and the first ones of the kernel, and the bias."""
    kernel, *bias = inner.weight("kernel", *(["bias"] if layer.get("use_bias", True) else []))
    own, of_kernel = string.ascii_lowercase[: rank_of(value)], string.ascii_uppercase[: rank_of(kernel)]
    lead, tail = own[: len(own) - axes], of_kernel[axes:]
    made = einsum(f"{lead}{of_kernel[:axes]},{of_kernel}->{lead}{tail}", [value, kernel])
    return made + bias[0] if bias else made


def _output(layer: Layer, value: Expr, gate: Expr | None) -> Expr:
    """[…, heads, width] to […, the output's shape]."""
    value = value if gate is None else value * op.sigmoid(gate)
    inner = layer.inner("EinsumDense", _attribute(layer, "output_dense"), "attention_output", {})
    return _product(layer, inner, value, 2)


@converts("GroupQueryAttention", "GroupedQueryAttention", passes_mask=True)
def convert_grouped_attention(
    layer: Layer, query: Expr, value: Expr, key: Any = None, query_mask: Any = None, value_mask: Any = None,
    key_mask: Any = None, attention_mask: Any = None, return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:  # fmt: skip
    """Ainslie et al. 2023: several heads of queries share one of keys and values."""
    masks = (query_mask, value_mask, key_mask)
    (q, k, v), allowed, gate = _prepared(layer, query, value, key, masks, attention_mask, use_causal_mask)
    times = int(layer["num_query_heads"]) // int(layer["num_key_value_heads"])
    k, v = (op.repeat(part, repeats=times, axis=2) if times > 1 else part for part in (k, v))
    scale = like(1 / math.sqrt(int(layer["head_dim"])), q)
    scores = einsum("bquh,bkuh->buqk", [q * scale, k])
    if allowed is not None and rank_of(allowed) == 3:
        allowed = op.expand_dims(allowed, axis=1)
    weights = _shares(layer, scores, allowed, (3,), return_attention_scores)
    made = einsum("buqk,bkuh->bquh", [weights, v])
    return _with_scores(_output(layer, made, gate), weights, return_attention_scores)
