"""Transformers over images, text and tables: global and windowed attention, and mixers that do without it."""

from __future__ import annotations

import numpy as np
import onnx

from zoo.blocks import (
    classifier,
    encoder_layer,
    feed_forward,
    heads_of,
    image_of,
    inverted_residual,
    merge_heads,
    post_norm_layer,
    tokens_of,
    weighted,
)
from zoo.graph import Graph, Value


def deit_s() -> onnx.ModelProto:
    """DeiT-S/16: 12 layers, 6 heads, 384 wide, 197 tokens (Touvron and others, 2021)."""
    g = Graph("deit_s")
    x = tokens_of(g, g.conv(g.input(1, 3, 224, 224), 384, 16, 16))
    x = g.concat([g.weight(1, 1, 384, fan_in=4), x])
    x = g.add(x, g.weight(1, 197, 384, fan_in=16))
    for _ in range(12):
        x = encoder_layer(g, x, 6, 1536)
    first = g.reshape(g.slice(g.layer_norm(x), 1, 0, 1), 1, 384)
    return g.model(g.linear(first, 1000))


def vit_tiny_batch4() -> onnx.ModelProto:
    """ViT-Ti/16 on four images: 192 wide, 3 heads."""
    g = Graph("vit_tiny_batch4")
    x = tokens_of(g, g.conv(g.input(4, 3, 224, 224), 192, 16, 16))
    x = g.add(x, g.weight(1, 196, 192, fan_in=16))
    for _ in range(12):
        x = encoder_layer(g, x, 3, 768)
    return g.model(g.linear(g.mean(g.layer_norm(x), 1), 1000))


def text_encoder_512() -> onnx.ModelProto:
    """MiniLM's shape on 512 tokens: 6 layers, 12 heads, 384 wide."""
    return _text_encoder("text_encoder_512", 1, 512)


def text_encoder_batch8() -> onnx.ModelProto:
    """The same on eight sentences of 32 tokens."""
    return _text_encoder("text_encoder_batch8", 8, 32)


def _text_encoder(name: str, batch: int, tokens: int) -> onnx.ModelProto:
    g = Graph(name)
    x = g.embed(g.input(batch, tokens, integers=True), 4096, 384)
    x = g.layer_norm(g.add(x, g.weight(1, tokens, 384, fan_in=1)))
    for _ in range(6):
        x = post_norm_layer(g, x, 12, 1536)
    return g.model(g.mean(x, 1))


def tabular_transformer() -> onnx.ModelProto:
    """FT-Transformer: each of 48 numbers is a token of 192 features; 32 rows of a table at once (Gorishniy, 2021)."""
    g = Graph("tabular_transformer")
    columns = g.reshape(g.input(32, 48), 32, 48, 1)
    x = g.add(g.mul(columns, g.weight(1, 48, 192, fan_in=1)), g.weight(1, 48, 192, fan_in=1))
    for _ in range(3):
        x = encoder_layer(g, x, 8, 256, act="relu")
    return g.model(g.linear(g.act(g.layer_norm(g.mean(x, 1)), "relu"), 2))


def swin_t() -> onnx.ModelProto:
    """Swin-T: attention in windows of 7x7, every other layer's shifted by 3 (Liu and others, 2021)."""
    g = Graph("swin_t")
    x = g.conv(g.input(1, 3, 224, 224), 96, 4, 4)
    x = g.layer_norm(g.transpose(x, 0, 2, 3, 1))
    for stage, (count, heads) in enumerate(((2, 3), (2, 6), (6, 12), (2, 24))):
        x = _merge_patches(g, x) if stage else x
        for i in range(count):
            y = _window_attention(g, g.layer_norm(x), heads, 3 if i % 2 and x.shape[1] > 7 else 0)
            x = g.add(x, y)
            x = g.add(x, feed_forward(g, g.layer_norm(x), 4 * x.shape[-1]))
    x = g.mean(g.reshape(g.layer_norm(x), 1, 49, 768), 1)
    return g.model(g.linear(x, 1000))


def _merge_patches(g: Graph, x: Value) -> Value:
    """2x2 neighbours side by side, then half of the features."""
    batch, height, width, features = x.shape
    x = g.reshape(x, batch, height // 2, 2, width // 2, 2, features)
    x = g.reshape(g.transpose(x, 0, 1, 3, 4, 2, 5), batch, height // 2, width // 2, 4 * features)
    return g.linear(g.layer_norm(x), 2 * features, bias=False)


def _window_attention(g: Graph, x: Value, heads: int, shift: int, window: int = 7) -> Value:
    """Attention among the 49 positions of each window of [N, H, W, C], with a bias for each pair of positions."""
    batch, height, width, features = x.shape
    down, across, tokens = height // window, width // window, window * window
    x = _roll(g, x, shift)
    x = g.transpose(g.reshape(x, batch, down, window, across, window, features), 0, 1, 3, 2, 4, 5)
    x = g.reshape(x, batch * down * across, tokens, features)
    both = g.reshape(g.linear(x, 3 * features), -1, tokens, 3, heads, features // heads)
    parts = g.split(g.transpose(both, 2, 0, 3, 1, 4), 3, axis=0)
    query, key, value = (g.reshape(p, *p.shape[1:]) for p in parts)
    bias = g.weight(1, heads, tokens, tokens, fan_in=4)
    y = merge_heads(g, weighted(g, query, key, value, _shifted_mask(g, bias, down * across, shift)))
    y = g.reshape(g.linear(y, features), batch, down, across, window, window, features)
    y = g.reshape(g.transpose(y, 0, 1, 3, 2, 4, 5), batch, height, width, features)
    return _roll(g, y, -shift)


def _shifted_mask(g: Graph, bias: Value, windows: int, shift: int) -> Value:
    """The bias, and for shifted windows what hides positions from the other side of the image."""
    if not shift:
        return bias
    side, tokens = int(windows**0.5), bias.shape[-1]
    coordinate = np.arange(side * 7)
    region = (coordinate >= side * 7 - 7).astype(int) + (coordinate >= side * 7 - shift)
    regions = (
        (3 * region[:, None] + region[None, :]).reshape(side, 7, side, 7).transpose(0, 2, 1, 3).reshape(-1, tokens)
    )
    hidden = np.where(regions[:, None, :] == regions[:, :, None], 0.0, -100.0).astype(np.float32)
    return g.add(bias, g.constant(hidden[:, None]))


def _roll(g: Graph, x: Value, shift: int) -> Value:
    """Rows and columns moved up and left by `shift`, around the edges."""
    for axis in (1, 2) if shift else ():
        cut = shift % x.shape[axis]
        x = g.concat([g.slice(x, axis, cut, x.shape[axis]), g.slice(x, axis, 0, cut)], axis)
    return x


def segformer_b0() -> onnx.ModelProto:
    """SegFormer-B0: keys and values of a smaller image, depthwise convolutions between linear layers (Xie, 2021)."""
    g = Graph("segformer_b0")
    image = g.input(1, 3, 256, 256)
    maps = []
    stages = ((7, 4, 32, 1, 8), (3, 2, 64, 2, 4), (3, 2, 160, 5, 2), (3, 2, 256, 8, 1))
    for size, stride, width, heads, reduction in stages:
        image = g.conv(image, width, size, stride)
        height, columns = image.shape[2:]
        x = g.layer_norm(tokens_of(g, image))
        for _ in range(2):
            x = g.add(x, _reduced_attention(g, g.layer_norm(x), heads, (height, columns), reduction))
            inner = image_of(g, g.linear(g.layer_norm(x), 4 * width), height, columns)
            inner = g.act(tokens_of(g, g.depthwise(inner, 3)), "gelu")
            x = g.add(x, g.linear(inner, width))
        image = image_of(g, g.layer_norm(x), height, columns)
        maps.append(image)
    height, columns = maps[0].shape[2:]
    decoded = [g.upsample(g.conv(m, 256), height, columns, "linear") for m in reversed(maps)]
    return g.model(g.conv(g.conv(g.concat(decoded), 256, act="relu"), 19))


def _reduced_attention(g: Graph, x: Value, heads: int, size: tuple[int, int], reduction: int) -> Value:
    """Attention of all positions to the means of blocks of reduction x reduction."""
    width, source = x.shape[-1], x
    if reduction > 1:
        source = g.layer_norm(tokens_of(g, g.conv(image_of(g, x, *size), width, reduction, reduction)))
    query = heads_of(g, g.linear(x, width), heads)
    key, value = (heads_of(g, g.linear(source, width), heads) for _ in range(2))
    return g.linear(merge_heads(g, weighted(g, query, key, value)), width)


def mlp_mixer_s16() -> onnx.ModelProto:
    """MLP-Mixer S/16: linear layers across patches, then across features (Tolstikhin and others, 2021)."""
    g = Graph("mlp_mixer_s16")
    x = tokens_of(g, g.conv(g.input(1, 3, 224, 224), 512, 16, 16))
    for _ in range(8):
        across = g.transpose(g.layer_norm(x), 0, 2, 1)
        x = g.add(x, g.transpose(feed_forward(g, across, 256), 0, 2, 1))
        x = g.add(x, feed_forward(g, g.layer_norm(x), 2048))
    return g.model(g.linear(g.mean(g.layer_norm(x), 1), 1000))


def mobilevit_xs() -> onnx.ModelProto:
    """MobileViT-like: MobileNet blocks with transformers over 2x2 patches between them (Mehta and Rastegari, 2022)."""
    g = Graph("mobilevit_xs")
    x = g.conv(g.input(1, 3, 256, 256), 16, 3, 2, act="silu")
    x = inverted_residual(g, x, 32, 4, act="silu")
    x = inverted_residual(g, x, 48, 4, stride=2, act="silu")
    x = inverted_residual(g, x, 48, 4, act="silu")
    for filters, width, count in ((64, 96, 2), (80, 120, 4), (96, 144, 3)):
        x = inverted_residual(g, x, filters, 4, stride=2, act="silu")
        x = _mobilevit_block(g, x, width, count)
    return g.model(classifier(g, g.conv(x, 384, act="silu")))


def _mobilevit_block(g: Graph, x: Value, width: int, count: int) -> Value:
    filters, (height, columns) = x.channels, x.shape[2:]
    y = g.conv(g.conv(x, filters, 3, act="silu"), width)
    y = g.reshape(y, width * height // 2, 2, columns // 2, 2)
    y = g.reshape(g.transpose(y, 0, 2, 1, 3), width, height * columns // 4, 4)
    y = g.transpose(y, 2, 1, 0)
    for _ in range(count):
        y = encoder_layer(g, y, 4, 2 * width, act="silu")
    y = g.transpose(g.layer_norm(y), 2, 1, 0)
    y = g.transpose(g.reshape(y, width * height // 2, columns // 2, 2, 2), 0, 2, 1, 3)
    y = g.conv(g.reshape(y, 1, width, height, columns), filters, act="silu")
    return g.conv(g.concat([x, y]), filters, 3, act="silu")


NETWORKS = (
    deit_s, vit_tiny_batch4, text_encoder_512, text_encoder_batch8, tabular_transformer, swin_t, segformer_b0,
    mlp_mixer_s16, mobilevit_xs,
)  # fmt: skip
