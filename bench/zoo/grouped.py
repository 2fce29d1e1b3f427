"""Grouped and shuffled convolutions: ResNeXt, RegNet, ShuffleNet, GhostNet."""

from __future__ import annotations

import onnx

from zoo.blocks import classifier, squeeze_excite
from zoo.graph import Graph, Value


def resnext50_32x4d() -> onnx.ModelProto:
    """ResNeXt-50, 32 groups of 4 to 32 channels (Xie and others, 2017)."""
    g = Graph("resnext50_32x4d")
    x = g.max_pool(g.conv(g.input(1, 3, 224, 224), 64, 7, 2, act="relu"), 3, 2, 1)
    for stage, (count, width) in enumerate(((3, 128), (4, 256), (6, 512), (3, 1024))):
        for i in range(count):
            x = _bottleneck(g, x, width, 2 * width, 2 if stage and not i else 1, 32)
    return g.model(classifier(g, x))


def regnet_x_1_6gf() -> onnx.ModelProto:
    """RegNetX-1.6GF: groups of 24 channels (Radosavovic and others, 2020)."""
    return _regnet("regnet_x_1_6gf", ((2, 72), (4, 168), (10, 408), (2, 912)), 24)


def regnet_y_800mf() -> onnx.ModelProto:
    """RegNetY-800MF: groups of 16 channels and squeeze-excite."""
    return _regnet("regnet_y_800mf", ((1, 64), (3, 144), (8, 320), (2, 784)), 16, excite=True)


def _regnet(name: str, stages: tuple[tuple[int, int], ...], group: int, excite: bool = False) -> onnx.ModelProto:
    g = Graph(name)
    x = g.conv(g.input(1, 3, 224, 224), 32, 3, 2, act="relu")
    for count, width in stages:
        for i in range(count):
            x = _bottleneck(g, x, width, width, 1 if i else 2, width // group, excite)
    return g.model(classifier(g, x))


def _bottleneck(g: Graph, x: Value, width: int, filters: int, stride: int, groups: int, excite: bool = False) -> Value:
    """1x1, grouped 3x3, 1x1, added to what came in."""
    y = g.conv(x, width, act="relu")
    y = g.conv(y, width, 3, stride, groups=groups, act="relu")
    y = squeeze_excite(g, y, x.channels // 4) if excite else y
    y = g.conv(y, filters)
    shortcut = x if x.shape == y.shape else g.conv(x, filters, 1, stride)
    return g.act(g.add(y, shortcut), "relu")


def shufflenet_v2_x1_0() -> onnx.ModelProto:
    """ShuffleNetV2: half of the channels pass by, then all are shuffled (Ma and others, 2018)."""
    g = Graph("shufflenet_v2_x1_0")
    x = g.max_pool(g.conv(g.input(1, 3, 224, 224), 24, 3, 2, act="relu"), 3, 2, 1)
    for count, filters in ((4, 116), (8, 232), (4, 464)):
        half = filters // 2
        side = g.conv(g.depthwise(x, 3, 2), half, act="relu")
        x = _shuffle(g, g.concat([side, _branch(g, x, half, 2)]))
        for _ in range(count - 1):
            kept, moved = g.split(x, 2)
            x = _shuffle(g, g.concat([kept, _branch(g, moved, half, 1)]))
    return g.model(classifier(g, g.conv(x, 1024, act="relu")))


def shufflenet_v1_g3() -> onnx.ModelProto:
    """ShuffleNet with grouped 1x1 convolutions, 3 groups of 80 and more channels (Zhang and others, 2018)."""
    g = Graph("shufflenet_v1_g3")
    x = g.max_pool(g.conv(g.input(1, 3, 224, 224), 24, 3, 2, act="relu"), 3, 2, 1)
    for stage, (count, filters) in enumerate(((4, 240), (8, 480), (4, 960))):
        for i in range(count):
            made = filters if i else filters - x.channels
            y = g.conv(x, filters // 4, groups=3 if stage or i else 1, act="relu")
            y = g.conv(g.depthwise(_shuffle(g, y, 3), 3, 1 if i else 2), made, groups=3)
            x = g.act(g.add(x, y) if i else g.concat([g.max_pool(x, 3, 2, 1), y]), "relu")
    return g.model(classifier(g, x))


def _branch(g: Graph, x: Value, filters: int, stride: int) -> Value:
    y = g.depthwise(g.conv(x, filters, act="relu"), 3, stride)
    return g.conv(y, filters, act="relu")


def _shuffle(g: Graph, x: Value, groups: int = 2) -> Value:
    """Channel i of group j becomes channel j of group i."""
    batch, channels, height, width = x.shape
    split = g.reshape(x, batch, groups, channels // groups, height, width)
    return g.reshape(g.transpose(split, 0, 2, 1, 3, 4), batch, channels, height, width)


def ghostnet() -> onnx.ModelProto:
    """GhostNet: half of the channels of each layer are depthwise copies of the other half (Han and others, 2020)."""
    g = Graph("ghostnet")
    x = g.conv(g.input(1, 3, 224, 224), 16, 3, 2, act="relu")
    stages = (
        (3, 16, 16, 1, 0), (3, 48, 24, 2, 0), (3, 72, 24, 1, 0), (5, 72, 40, 2, 20), (5, 120, 40, 1, 32),
        (3, 240, 80, 2, 0), (3, 200, 80, 1, 0), (3, 184, 80, 1, 0), (3, 480, 112, 1, 120), (3, 672, 112, 1, 168),
        (5, 672, 160, 2, 168), (5, 960, 160, 1, 0), (5, 960, 160, 1, 240),
    )  # fmt: skip
    for size, inner, filters, stride, excite in stages:
        y = _ghost(g, x, inner, "relu")
        y = g.depthwise(y, size, stride) if stride == 2 else y
        y = squeeze_excite(g, y, excite, gate="hard_sigmoid") if excite else y
        y = _ghost(g, y, filters, "")
        shortcut = x if x.shape == y.shape else g.conv(g.depthwise(x, size, stride), filters)
        x = g.add(y, shortcut)
    x = g.global_pool(g.conv(x, 960, act="relu"))
    return g.model(g.linear(g.flatten(g.conv(x, 1280, act="relu")), 1000))


def _ghost(g: Graph, x: Value, filters: int, act: str) -> Value:
    first = g.conv(x, filters // 2, act=act)
    return g.concat([first, g.depthwise(first, 3, act=act)])


NETWORKS = (resnext50_32x4d, regnet_x_1_6gf, regnet_y_800mf, shufflenet_v2_x1_0, shufflenet_v1_g3, ghostnet)
