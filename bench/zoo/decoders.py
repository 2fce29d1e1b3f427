"""Decoders of text: all tokens of a prompt at once, and one token beside a cache of keys and values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from zoo.blocks import feed_forward, heads_of, merge_heads, weighted
from zoo.graph import Graph, Value

VOCABULARY = 8192


def gpt2_prefill_64() -> onnx.ModelProto:
    """GPT-2's shape, 4 of 12 layers 768 wide, on a prompt of 64 tokens; keys and values are results too."""
    return _gpt2("gpt2_prefill_64", tokens=64, cached=0)


def gpt2_decode() -> onnx.ModelProto:
    """The same for one token behind 255 others."""
    return _gpt2("gpt2_decode", tokens=1, cached=255)


def llama_prefill_128() -> onnx.ModelProto:
    """SmolLM-135M's shape, 6 of 30 layers 576 wide, three heads to each of keys, on a prompt of 128 tokens."""
    return _llama("llama_prefill_128", tokens=128, cached=0)


def llama_decode() -> onnx.ModelProto:
    """The same for one token behind 255 others."""
    return _llama("llama_decode", tokens=1, cached=255)


def _gpt2(name: str, tokens: int, cached: int, width: int = 768, heads: int = 12) -> onnx.ModelProto:
    g = Graph(name)
    x = g.add(g.embed(g.input(1, tokens, integers=True), VOCABULARY, width), g.weight(1, tokens, width, fan_in=16))
    state: list[Value] = []
    for _ in range(4):
        parts = g.split(g.linear(g.layer_norm(x), 3 * width), 3, axis=-1)
        query, key, value = (heads_of(g, part, heads) for part in parts)
        key, value = _with_cache(g, state, key, value, cached)
        y = weighted(g, query, key, value, _causal(g, tokens) if tokens > 1 else None)
        x = g.add(x, g.linear(merge_heads(g, y), width))
        x = g.add(x, feed_forward(g, g.layer_norm(x), 4 * width))
    return g.model(_logits(g, g.layer_norm(x)), *state)


def _llama(name: str, tokens: int, cached: int, width: int = 576, heads: int = 9, shared: int = 3) -> onnx.ModelProto:
    g = Graph(name)
    x = g.embed(g.input(1, tokens, integers=True), VOCABULARY, width)
    rotate = _rotation(g, tokens, cached, width // heads)
    state: list[Value] = []
    for _ in range(6):
        normal = g.rms_norm(x)
        query = rotate(heads_of(g, g.linear(normal, width, bias=False), heads))
        inner = width // heads * shared
        key, value = (heads_of(g, g.linear(normal, inner, bias=False), shared) for _ in range(2))
        key, value = _with_cache(g, state, rotate(key), value, cached)
        key, value = (_repeated(g, part, heads // shared) for part in (key, value))
        y = weighted(g, query, key, value, _causal(g, tokens) if tokens > 1 else None)
        x = g.add(x, g.linear(merge_heads(g, y), width, bias=False))
        normal = g.rms_norm(x)
        gated = g.mul(g.act(g.linear(normal, 1536, bias=False), "silu"), g.linear(normal, 1536, bias=False))
        x = g.add(x, g.linear(gated, width, bias=False))
    return g.model(_logits(g, g.rms_norm(x)), *state)


def _with_cache(g: Graph, state: list[Value], key: Value, value: Value, cached: int) -> tuple[Value, Value]:
    """Keys and values behind those of `cached` earlier tokens, which are inputs; both are results of the model."""
    whole = []
    for part in (key, value):
        batch, heads, _, depth = part.shape
        whole.append(g.concat([g.input(batch, heads, cached, depth), part], 2) if cached else part)
    state += whole
    return whole[0], whole[1]


def _repeated(g: Graph, x: Value, times: int) -> Value:
    """Each head `times` times, as exporters write it: an axis, expanded and folded away."""
    batch, heads, tokens, depth = x.shape
    shape = (batch, heads, times, tokens, depth)
    wide = g.node("Expand", [g.reshape(x, batch, heads, 1, tokens, depth), g.integers(*shape)], shape)
    return g.reshape(wide, batch, heads * times, tokens, depth)


def _rotation(g: Graph, tokens: int, cached: int, depth: int) -> Callable[[Value], Value]:
    """Rotary positions: halves of the features turned by angles that grow with the position (Su and others, 2021)."""
    angle = np.arange(cached, cached + tokens)[:, None] / 10000 ** (np.arange(depth // 2)[None] / (depth // 2))
    angle = np.concatenate([angle, angle], 1).astype(np.float32)
    cosine, sine = g.constant(np.cos(angle)), g.constant(np.sin(angle))

    def rotate(x: Value) -> Value:
        first, second = g.slice(x, -1, 0, depth // 2), g.slice(x, -1, depth // 2, depth)
        turned = g.concat([g.node("Neg", [second], second.shape), first], -1)
        return g.add(g.mul(x, cosine), g.mul(turned, sine))

    return rotate


def _causal(g: Graph, tokens: int) -> Value:
    """Zero for what a token may see, a large negative number for what comes after it."""
    return g.constant(np.triu(np.full((1, 1, tokens, tokens), -1e9, np.float32), 1))


def _logits(g: Graph, x: Value) -> Value:
    """Of the last token."""
    tokens, width = x.shape[1:]
    return g.linear(g.reshape(g.slice(x, 1, tokens - 1, tokens), 1, width), VOCABULARY, bias=False)


NETWORKS = (gpt2_prefill_64, gpt2_decode, llama_prefill_128, llama_decode)
