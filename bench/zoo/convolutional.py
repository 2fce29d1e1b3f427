"""Classifiers made of convolutions: large depthwise windows, squeeze-excite, dense connections; batches, odd sizes."""

from __future__ import annotations

import onnx

from zoo.blocks import classifier, inverted_residual, mobilenet_v2_features, resnet18_features
from zoo.graph import Graph, Value


def convnext_t() -> onnx.ModelProto:
    """ConvNeXt-T: 7x7 depthwise, layer normalization over channels, two linear layers (Liu and others, 2022)."""
    g = Graph("convnext_t")
    x = g.channel_norm(g.conv(g.input(1, 3, 224, 224), 96, 4, 4))
    for stage, (count, width) in enumerate(((3, 96), (3, 192), (9, 384), (3, 768))):
        x = g.conv(g.channel_norm(x), width, 2, 2) if stage else x
        for _ in range(count):
            y = g.layer_norm(g.transpose(g.depthwise(x, 7), 0, 2, 3, 1))
            y = g.mul(g.linear(g.linear(y, 4 * width, act="gelu"), width), g.bias(width, mean=0.5))
            x = g.add(x, g.transpose(y, 0, 3, 1, 2))
    pooled = g.layer_norm(g.flatten(g.global_pool(x)))
    return g.model(g.linear(pooled, 1000))


def convmixer_768() -> onnx.ModelProto:
    """ConvMixer-768: 7x7 depthwise and 1x1 convolutions on patches of 7x7, 8 of 32 layers (Trockman and Kolter)."""
    g = Graph("convmixer_768")
    x = g.batch_norm(g.conv(g.input(1, 3, 224, 224), 768, 7, 7, act="relu"))
    for _ in range(8):
        x = g.add(x, g.batch_norm(g.depthwise(x, 7, act="relu")))
        x = g.batch_norm(g.conv(x, 768, act="relu"))
    return g.model(classifier(g, x))


def efficientnet_v2_b0() -> onnx.ModelProto:
    """EfficientNetV2-B0: whole 3x3 convolutions early, squeeze-excite late, SiLU throughout (Tan and Le, 2021)."""
    g = Graph("efficientnet_v2_b0")
    x = g.conv(g.input(1, 3, 224, 224), 32, 3, 2, act="silu")
    x = g.conv(x, 16, 3, act="silu")
    for filters in (32, 48):
        for i in range(2):
            y = g.conv(g.conv(x, 4 * x.channels, 3, 1 if i else 2, act="silu"), filters)
            x = g.add(x, y) if y.shape == x.shape else y
    for count, filters, expand, stride in ((3, 96, 4, 2), (5, 112, 6, 1), (8, 192, 6, 2)):
        for i in range(count):
            excite = x.channels // 4
            x = inverted_residual(g, x, filters, expand, 3, 1 if i else stride, "silu", excite)
    return g.model(classifier(g, g.conv(x, 1280, act="silu")))


def densenet_bc_100() -> onnx.ModelProto:
    """DenseNet-BC-100 of 32x32 images, which adds 12 channels a layer (Huang and others, 2017)."""
    g = Graph("densenet_bc_100")
    x = g.conv(g.input(1, 3, 32, 32), 24, 3)
    for block in range(3):
        for _ in range(16):
            x = g.concat([x, g.conv(g.conv(g.batch_norm(x, "relu"), 48, act="relu"), 12, 3)])
        if block < 2:
            x = g.average_pool(g.conv(g.batch_norm(x, "relu"), x.channels // 2))
    return g.model(classifier(g, g.batch_norm(x, "relu"), 10))


def vovnet_27_slim() -> onnx.ModelProto:
    """VoVNet-27-slim: five 3x3 layers, then all of them side by side (Lee and others, 2019)."""
    g = Graph("vovnet_27_slim")
    x = g.conv(g.input(1, 3, 224, 224), 64, 3, 2, act="relu")
    x = g.conv(g.conv(x, 64, 3, act="relu"), 128, 3, 2, act="relu")
    for stage, (inner, filters) in enumerate(((64, 128), (80, 256), (96, 384), (112, 512))):
        x = g.max_pool(x, 3, 2, 1) if stage else x
        layers = [x]
        for _ in range(5):
            layers.append(g.conv(layers[-1], inner, 3, act="relu"))
        x = g.conv(g.concat(layers), filters, act="relu")
    return g.model(classifier(g, x))


def resnet18_batch4() -> onnx.ModelProto:
    """ResNet-18 on four images."""
    return _resnet18("resnet18_batch4", 4, 224, 224)


def resnet18_193x257() -> onnx.ModelProto:
    """ResNet-18 on an image of 193x257."""
    return _resnet18("resnet18_193x257", 1, 193, 257)


def _resnet18(name: str, batch: int, height: int, width: int) -> onnx.ModelProto:
    g = Graph(name)
    return g.model(classifier(g, resnet18_features(g, g.input(batch, 3, height, width))[-1]))


def mobilenet_v2_batch8() -> onnx.ModelProto:
    """MobileNetV2 on eight images."""
    return _mobilenet_v2("mobilenet_v2_batch8", 8, 224, 224)


def mobilenet_v2_193x257() -> onnx.ModelProto:
    """MobileNetV2 on an image of 193x257."""
    return _mobilenet_v2("mobilenet_v2_193x257", 1, 193, 257)


def _mobilenet_v2(name: str, batch: int, height: int, width: int) -> onnx.ModelProto:
    g = Graph(name)
    x: Value = mobilenet_v2_features(g, g.input(batch, 3, height, width))[-1]
    return g.model(classifier(g, g.conv(x, 1280, act="relu6")))


def video_r3d() -> onnx.ModelProto:
    """R3D-18's first two stages: 3x3x3 convolutions over 8 frames of 56x56 (Tran and others, 2018)."""
    g = Graph("video_r3d")
    x = g.conv(g.input(1, 3, 8, 56, 56), 64, (3, 7, 7), (1, 2, 2), act="relu")
    for filters in (64, 128):
        for i in range(2):
            stride = 2 if i == 0 and filters == 128 else 1
            y = g.conv(g.conv(x, filters, 3, stride, act="relu"), filters, 3)
            shortcut = x if x.shape == y.shape else g.conv(x, filters, 1, stride)
            x = g.act(g.add(y, shortcut), "relu")
    return g.model(classifier(g, x, 400))


NETWORKS = (
    convnext_t, convmixer_768, efficientnet_v2_b0, densenet_bc_100, vovnet_27_slim, resnet18_batch4, resnet18_193x257,
    mobilenet_v2_batch8, mobilenet_v2_193x257, video_r3d,
)  # fmt: skip
