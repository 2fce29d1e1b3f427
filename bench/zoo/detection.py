"""Detectors with their heads: boxes and scores of all anchors, before what chooses among them."""

from __future__ import annotations

import onnx

from zoo.blocks import mobilenet_v2_features, resnet18_features
from zoo.graph import Graph, Value


def yolo_v8_n() -> onnx.ModelProto:
    """YOLOv8-n's shape at 320x320: SiLU, split and concat, upsampling, boxes as distributions."""
    g = Graph("yolo_v8_n")
    x = g.conv(g.conv(g.input(1, 3, 320, 320), 16, 3, 2, act="silu"), 32, 3, 2, act="silu")
    x = _c2f(g, x, 32, 1)
    kept = []
    for width, count in ((64, 2), (128, 2), (256, 1)):
        x = _c2f(g, g.conv(x, width, 3, 2, act="silu"), width, count)
        kept.append(x)
    small, middle, large = kept[0], kept[1], _pooled_pyramid(g, kept[2])
    middle = _c2f(g, g.concat([g.upsample(large, *middle.shape[2:]), middle]), 128, 1, shortcut=False)
    small = _c2f(g, g.concat([g.upsample(middle, *small.shape[2:]), small]), 64, 1, shortcut=False)
    middle = _c2f(g, g.concat([g.conv(small, 64, 3, 2, act="silu"), middle]), 128, 1, shortcut=False)
    large = _c2f(g, g.concat([g.conv(middle, 128, 3, 2, act="silu"), large]), 256, 1, shortcut=False)
    return g.model(_decoupled_head(g, [small, middle, large]))


def _c2f(g: Graph, x: Value, filters: int, count: int, shortcut: bool = True) -> Value:
    """Half of the channels through `count` bottlenecks, everything on the way side by side."""
    half = filters // 2
    parts = g.split(g.conv(x, filters, act="silu"), 2)
    for _ in range(count):
        y = g.conv(g.conv(parts[-1], half, 3, act="silu"), half, 3, act="silu")
        parts.append(g.add(parts[-1], y) if shortcut else y)
    return g.conv(g.concat(parts), filters, act="silu")


def _pooled_pyramid(g: Graph, x: Value) -> Value:
    """An image and its maxima over windows of 5, 9 and 13, side by side."""
    parts = [g.conv(x, x.channels // 2, act="silu")]
    for _ in range(3):
        parts.append(g.max_pool(parts[-1], 5, 1, 2))
    return g.conv(g.concat(parts), x.channels, act="silu")


def _decoupled_head(g: Graph, maps: list[Value], classes: int = 80) -> Value:
    """[1, 4 + classes, anchors]: sides of boxes as means of 16 bins, and scores."""
    found = []
    for x in maps:
        boxes = g.conv(g.conv(g.conv(x, 64, 3, act="silu"), 64, 3, act="silu"), 64)
        scores = g.conv(g.conv(g.conv(x, 80, 3, act="silu"), 80, 3, act="silu"), classes)
        found.append(g.reshape(g.concat([boxes, scores]), 1, 64 + classes, -1))
    boxes, scores = g.split(g.concat(found, 2), [64, classes])
    bins = g.softmax(g.transpose(g.reshape(boxes, 1, 4, 16, -1), 0, 2, 1, 3), 1)
    sides = g.reshape(g.conv(bins, 1), 1, 4, -1)
    return g.concat([sides, g.act(scores, "sigmoid")])


def ssdlite_mobilenet_v2() -> onnx.ModelProto:
    """SSDLite at 300x300: depthwise heads on six maps, 91 classes (Sandler and others, 2018)."""
    g = Graph("ssdlite_mobilenet_v2")
    features = mobilenet_v2_features(g, g.input(1, 3, 300, 300))
    maps = [features[2], g.conv(features[3], 1280, act="relu6")]
    for filters in (512, 256, 256, 128):
        x = g.conv(maps[-1], filters // 2, act="relu6")
        maps.append(g.conv(g.depthwise(x, 3, 2, act="relu6"), filters, act="relu6"))
    return g.model(*(_anchors(g, maps, size) for size in (4, 91)))


def _anchors(g: Graph, maps: list[Value], size: int) -> Value:
    """Predictions of a depthwise and a 1x1 convolution for each of six anchors of each position: [1, anchors, size]."""
    found = []
    for x in maps:
        y = g.conv(g.depthwise(x, 3, act="relu6"), 6 * size)
        found.append(g.reshape(g.transpose(y, 0, 2, 3, 1), 1, -1, size))
    return g.concat(found)


def blazeface() -> onnx.ModelProto:
    """BlazeFace: 5x5 depthwise blocks of 24 to 96 channels at 128x128 (Bazarevsky and others, 2019)."""
    g = Graph("blazeface")
    x = g.conv(g.input(1, 3, 128, 128), 24, 5, 2, act="relu")
    for filters, stride in ((24, 1), (28, 1), (32, 2), (36, 1), (42, 1), (48, 2), *((c, 1) for c in range(56, 97, 8))):
        x = _blaze_block(g, x, filters, stride)
    low = _blaze_block(g, x, 96, 2)
    for _ in range(4):
        low = _blaze_block(g, low, 96, 1)
    found = []
    for size in (1, 16):
        parts = [g.reshape(g.transpose(g.conv(m, n * size), 0, 2, 3, 1), 1, -1, size) for m, n in ((x, 2), (low, 6))]
        found.append(g.concat(parts))
    return g.model(*found)


def _blaze_block(g: Graph, x: Value, filters: int, stride: int) -> Value:
    y = g.conv(g.depthwise(x, 5, stride), filters)
    x = g.max_pool(x) if stride == 2 else x
    if x.channels < filters:
        batch, channels, height, width = x.shape
        grown = (batch, filters, height, width)
        x = g.node("Pad", [x, g.integers(0, 0, 0, 0, 0, filters - channels, 0, 0)], grown)
    return g.act(g.add(y, x), "relu")


def fpn_retina() -> onnx.ModelProto:
    """A feature pyramid on ResNet-18 with RetinaNet's heads of 128 channels, 192x256 (Lin and others, 2017)."""
    g = Graph("fpn_retina")
    low, middle, high = resnet18_features(g, g.input(1, 3, 192, 256))[1:]
    maps = [g.conv(high, 128)]
    for x in (middle, low):
        maps.append(g.add(g.conv(x, 128), g.upsample(maps[-1], *x.shape[2:])))
    found = []
    for x in (g.conv(m, 128, 3) for m in maps):
        for filters in (9 * 20, 9 * 4):
            y = g.conv(g.conv(x, 128, 3, act="relu"), 128, 3, act="relu")
            found.append(g.reshape(g.conv(y, filters, 3), 1, -1))
    return g.model(g.concat(found))


NETWORKS = (yolo_v8_n, ssdlite_mobilenet_v2, blazeface, fpn_retina)
