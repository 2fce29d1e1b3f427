"""Images to images: U-Net, super-resolution, segmentation, keypoints, autoencoders, style, a step of diffusion."""

from __future__ import annotations

import onnx

from zoo.blocks import image_of, mobilenet_v2_features, resnet18_features, self_attention, tokens_of
from zoo.graph import Graph, Value


def unet() -> onnx.ModelProto:
    """U-Net of 160x160 with 32 to 512 channels, half of the original's (Ronneberger and others, 2015)."""
    g = Graph("unet")
    x = g.input(1, 3, 160, 160)
    kept = []
    for width in (32, 64, 128, 256, 512):
        x = g.max_pool(x) if kept else x
        x = g.conv(g.conv(x, width, 3, act="relu"), width, 3, act="relu")
        kept.append(x)
    for skip in reversed(kept[:-1]):
        x = g.concat([skip, g.deconv(x, skip.channels, 2)])
        x = g.conv(g.conv(x, skip.channels, 3, act="relu"), skip.channels, 3, act="relu")
    return g.model(g.conv(x, 2))


def espcn_x3() -> onnx.ModelProto:
    """ESPCN: three convolutions and a pixel shuffle, 120x160 to 360x480 (Shi and others, 2016)."""
    g = Graph("espcn_x3")
    x = g.conv(g.input(1, 1, 120, 160), 64, 5, act="tanh")
    x = g.conv(g.conv(x, 64, 3, act="tanh"), 32, 3, act="tanh")
    return g.model(g.pixel_shuffle(g.conv(x, 9, 3), 3))


def edsr_x2() -> onnx.ModelProto:
    """EDSR's baseline with 8 of 16 blocks of 64 channels, 64x64 to 128x128 (Lim and others, 2017)."""
    g = Graph("edsr_x2")
    x = first = g.conv(g.input(1, 3, 64, 64), 64, 3)
    for _ in range(8):
        x = g.add(x, g.conv(g.conv(x, 64, 3, act="relu"), 64, 3))
    x = g.add(g.conv(x, 64, 3), first)
    return g.model(g.conv(g.pixel_shuffle(g.conv(x, 256, 3), 2), 3, 3))


def deeplab_v3() -> onnx.ModelProto:
    """DeepLabV3 on ResNet-18 with dilated windows at 6, 12 and 18, for an image of 193x257 (Chen and others, 2017)."""
    g = Graph("deeplab_v3")
    image = g.input(1, 3, 193, 257)
    x = resnet18_features(g, image, (1, 2, 2, 1))[-1]
    height, width = x.shape[2:]
    parts = [g.conv(x, 256, act="relu")]
    parts += [g.conv(x, 256, 3, dilation=d, act="relu") for d in (6, 12, 18)]
    parts.append(g.upsample(g.conv(g.global_pool(x), 256, act="relu"), height, width))
    x = g.conv(g.conv(g.concat(parts), 256, act="relu"), 256, 3, act="relu")
    return g.model(g.upsample(g.conv(x, 21), *image.shape[2:], "linear"))


def lraspp_mobilenet() -> onnx.ModelProto:
    """A light segmentation head on MobileNetV2, 256x256 (Howard and others, 2019)."""
    g = Graph("lraspp_mobilenet")
    maps = mobilenet_v2_features(g, g.input(1, 3, 256, 256))
    low, high = maps[1], maps[-1]
    gate = g.conv(g.global_pool(high), 128, act="sigmoid")
    x = g.upsample(g.mul(g.conv(high, 128, act="relu"), gate), *low.shape[2:], "linear")
    x = g.add(g.conv(x, 21), g.conv(low, 21))
    return g.model(g.upsample(x, 256, 256, "linear"))


def pose_resnet18() -> onnx.ModelProto:
    """Keypoints as heat maps: ResNet-18 and three transposed convolutions, 256x192 (Xiao and others, 2018)."""
    g = Graph("pose_resnet18")
    x = resnet18_features(g, g.input(1, 3, 256, 192))[-1]
    for _ in range(3):
        x = g.deconv(x, 256, act="relu")
    return g.model(g.conv(x, 17))


def hourglass() -> onnx.ModelProto:
    """One hourglass of bottlenecks with 128 channels at 64x64, for keypoints (Newell and others, 2016)."""
    g = Graph("hourglass")
    x = g.max_pool(g.conv(g.input(1, 3, 256, 256), 64, 7, 2, act="relu"))
    return g.model(g.conv(_hourglass(g, _residual(g, x, 128), 4), 16))


def _hourglass(g: Graph, x: Value, depth: int) -> Value:
    below = _residual(g, g.max_pool(x), 128)
    below = _hourglass(g, below, depth - 1) if depth > 1 else below
    return g.add(_residual(g, x, 128), g.upsample(_residual(g, below, 128), *x.shape[2:]))


def _residual(g: Graph, x: Value, filters: int) -> Value:
    y = g.conv(g.conv(g.conv(x, filters // 2, act="relu"), filters // 2, 3, act="relu"), filters)
    return g.act(g.add(y, x if y.shape == x.shape else g.conv(x, filters)), "relu")


def autoencoder() -> onnx.ModelProto:
    """Five strided and five transposed convolutions of 4x4, 128x128."""
    g = Graph("autoencoder")
    x = g.input(1, 3, 128, 128)
    for width in (32, 64, 128, 256, 256):
        x = g.conv(x, width, 4, 2, act="relu", pad=1)
    for width in (256, 128, 64, 32):
        x = g.deconv(x, width, act="relu")
    return g.model(g.deconv(x, 3, act="sigmoid"))


def style_transfer() -> onnx.ModelProto:
    """Fast style transfer: 9x9 windows, instance normalizations, five residual blocks, 128x128 (Johnson, 2016)."""
    g = Graph("style_transfer")
    x = _normalized(g, g.conv(g.input(1, 3, 128, 128), 32, 9), "relu")
    for width in (64, 128):
        x = _normalized(g, g.conv(x, width, 3, 2), "relu")
    for _ in range(5):
        y = _normalized(g, g.conv(x, 128, 3), "relu")
        x = g.add(x, _normalized(g, g.conv(y, 128, 3), ""))
    for width in (64, 32):
        x = g.upsample(x, 2 * x.shape[2], 2 * x.shape[3])
        x = _normalized(g, g.conv(x, width, 3), "relu")
    return g.model(g.conv(x, 3, 9, act="tanh"))


def _normalized(g: Graph, x: Value, act: str) -> Value:
    operands = [x, g.bias(x.channels, mean=1.0), g.bias(x.channels)]
    return g.act(g.node("InstanceNormalization", operands, x.shape), act)


def diffusion_unet() -> onnx.ModelProto:
    """A small denoiser of 32x32: group normalization, SiLU, attention at 16x16 (Ho and others, 2020)."""
    g = Graph("diffusion_unet")
    x, time = g.conv(g.input(1, 4, 32, 32), 128, 3), g.input(1, 128)
    time = g.act(g.linear(g.linear(time, 512, act="silu"), 512), "silu")
    x = high = _denoise(g, _denoise(g, x, time, 128), time, 128)
    x = _denoise(g, g.conv(x, 128, 3, 2), time, 256)
    x = low = _attend(g, x)
    x = _denoise(g, _attend(g, _denoise(g, g.conv(x, 256, 3, 2), time, 256)), time, 256)
    x = _attend(g, _denoise(g, g.concat([g.upsample(x, 16, 16), low]), time, 256))
    x = _denoise(g, g.concat([g.upsample(x, 32, 32), high]), time, 128)
    return g.model(g.conv(g.act(g.group_norm(x, 32), "silu"), 4, 3))


def _denoise(g: Graph, x: Value, time: Value, filters: int) -> Value:
    y = g.conv(g.act(g.group_norm(x, 32), "silu"), filters, 3)
    y = g.add(y, g.reshape(g.linear(time, filters), 1, filters, 1, 1))
    y = g.conv(g.act(g.group_norm(y, 32), "silu"), filters, 3)
    return g.add(y, x if x.channels == filters else g.conv(x, filters))


def _attend(g: Graph, x: Value) -> Value:
    y = self_attention(g, tokens_of(g, g.group_norm(x, 32)), 4)
    return g.add(x, image_of(g, y, *x.shape[2:]))


NETWORKS = (
    unet, espcn_x3, edsr_x2, deeplab_v3, lraspp_mobilenet, pose_resnet18, hourglass, autoencoder, style_transfer,
    diffusion_unet,
)  # fmt: skip
