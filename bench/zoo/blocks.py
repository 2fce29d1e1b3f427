"""Blocks that several families share: of transformers, squeeze-and-excitation, of ResNet and MobileNet."""

from __future__ import annotations

import math

from zoo.graph import Graph, Value


def classifier(g: Graph, x: Value, classes: int = 1000) -> Value:
    """Mean of each channel, then a linear layer."""
    return g.linear(g.flatten(g.global_pool(x)), classes)


def squeeze_excite(g: Graph, x: Value, inner: int, act: str = "relu", gate: str = "sigmoid") -> Value:
    """Channels scaled by what two 1x1 convolutions make of their means."""
    return g.mul(x, g.conv(g.conv(g.global_pool(x), inner, act=act), x.channels, act=gate))


def basic_block(g: Graph, x: Value, filters: int, stride: int = 1, dilation: int = 1) -> Value:
    """ResNet-18's residual block of two 3x3 convolutions."""
    y = g.conv(x, filters, 3, stride, act="relu", dilation=dilation)
    y = g.conv(y, filters, 3, dilation=dilation)
    shortcut = x if y.shape == x.shape else g.conv(x, filters, 1, stride)
    return g.act(g.add(y, shortcut), "relu")


def resnet18_features(g: Graph, x: Value, strides: tuple[int, ...] = (1, 2, 2, 2)) -> list[Value]:
    """The maps of the four stages of ResNet-18; a stage of stride 1 beyond the first is dilated instead."""
    x = g.max_pool(g.conv(x, 64, 7, 2, act="relu"), 3, 2, 1)
    maps, dilation = [], 1
    for stage, (filters, stride) in enumerate(zip((64, 128, 256, 512), strides, strict=True)):
        dilation *= 2 if stage and stride == 1 else 1
        x = basic_block(g, x, filters, stride, dilation)
        x = basic_block(g, x, filters, 1, dilation)
        maps.append(x)
    return maps


def inverted_residual(
    g: Graph, x: Value, filters: int, expand: int, size: int = 3, stride: int = 1, act: str = "relu6", excite: int = 0
) -> Value:
    """MobileNetV2's block: expand by 1x1, depthwise, project by 1x1; `excite` channels inside a squeeze-excite."""
    y = g.conv(x, x.channels * expand, act=act) if expand > 1 else x
    y = g.depthwise(y, size, stride, act=act)
    y = squeeze_excite(g, y, excite, act=act) if excite else y
    y = g.conv(y, filters)
    return g.add(x, y) if y.shape == x.shape else y


def mobilenet_v2_features(g: Graph, x: Value) -> list[Value]:
    """The maps of MobileNetV2's stages, with 24, 32, 96 and 320 channels."""
    x = g.conv(x, 32, 3, 2, act="relu6")
    maps = []
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for expand, filters, count, stride in stages:
        for i in range(count):
            x = inverted_residual(g, x, filters, expand, stride=stride if i == 0 else 1)
        maps.append(x)
    return [maps[1], maps[2], maps[4], maps[6]]


def heads_of(g: Graph, x: Value, heads: int) -> Value:
    """[batch, tokens, width] as [batch, heads, tokens, width / heads]."""
    batch, tokens, width = x.shape
    return g.transpose(g.reshape(x, batch, tokens, heads, width // heads), 0, 2, 1, 3)


def merge_heads(g: Graph, x: Value) -> Value:
    """The inverse of `heads_of`."""
    batch, heads, tokens, depth = x.shape
    return g.reshape(g.transpose(x, 0, 2, 1, 3), batch, tokens, heads * depth)


def weighted(g: Graph, query: Value, key: Value, value: Value, mask: Value | None = None) -> Value:
    """softmax(query key^T / sqrt(depth) + mask) value, of [batch, heads, tokens, depth]."""
    scaled = g.mul(query, g.number(1 / math.sqrt(query.shape[-1])))
    scores = g.matmul(scaled, g.transpose(key, 0, 1, 3, 2))
    return g.matmul(g.softmax(scores if mask is None else g.add(scores, mask)), value)


def self_attention(g: Graph, x: Value, heads: int, mask: Value | None = None) -> Value:
    """Multi-head attention of tokens to each other, with three projections before and one after."""
    query, key, value = (heads_of(g, g.linear(x, x.shape[-1]), heads) for _ in range(3))
    return g.linear(merge_heads(g, weighted(g, query, key, value, mask)), x.shape[-1])


def feed_forward(g: Graph, x: Value, inner: int, act: str = "gelu") -> Value:
    """Two linear layers with an activation between them."""
    return g.linear(g.linear(x, inner, act=act), x.shape[-1])


def encoder_layer(g: Graph, x: Value, heads: int, inner: int, act: str = "gelu") -> Value:
    """A transformer layer whose normalizations come before its parts."""
    x = g.add(x, self_attention(g, g.layer_norm(x), heads))
    return g.add(x, feed_forward(g, g.layer_norm(x), inner, act))


def post_norm_layer(g: Graph, x: Value, heads: int, inner: int, act: str = "gelu") -> Value:
    """A transformer layer whose normalizations come after the additions, as in BERT."""
    x = g.layer_norm(g.add(x, self_attention(g, x, heads)))
    return g.layer_norm(g.add(x, feed_forward(g, x, inner, act)))


def tokens_of(g: Graph, image: Value) -> Value:
    """[N, C, H, W] as [N, H * W, C]."""
    return g.transpose(g.reshape(image, *image.shape[:2], -1), 0, 2, 1)


def image_of(g: Graph, tokens: Value, height: int, width: int) -> Value:
    """The inverse of `tokens_of`."""
    return g.reshape(g.transpose(tokens, 0, 2, 1), tokens.shape[0], tokens.shape[-1], height, width)
