"""Speech, sound and time series: recurrent networks, 1-D convolutions, conformers, a vocoder."""

from __future__ import annotations

import onnx

from zoo.blocks import encoder_layer, feed_forward, self_attention
from zoo.graph import Graph, Value


def bigru_tagger() -> onnx.ModelProto:
    """Two bidirectional GRU layers of 256 units over 64 words."""
    g = Graph("bigru_tagger")
    x = g.embed(g.input(64, 1, integers=True), 4096, 128)
    for _ in range(2):
        x = g.recurrent(x, 256, "GRU")
    return g.model(g.linear(x, 32))


def lstm_batch8() -> onnx.ModelProto:
    """Two LSTM layers of 256 units over 50 steps of eight series."""
    g = Graph("lstm_batch8")
    x = g.input(50, 8, 64)
    for _ in range(2):
        x = g.recurrent(x, 256, "LSTM", both=False)
    return g.model(g.linear(g.reshape(g.slice(x, 0, 49, 50), 8, 256), 12))


def crnn() -> onnx.ModelProto:
    """CRNN of lines of text, 32x160: convolutions, then two bidirectional LSTM layers (Shi and others, 2017)."""
    g = Graph("crnn")
    x = g.max_pool(g.conv(g.input(1, 1, 32, 160), 64, 3, act="relu"))
    x = g.max_pool(g.conv(x, 128, 3, act="relu"))
    for filters in (256, 512):
        x = g.conv(g.conv(x, filters, 3, act="relu"), filters, 3, act="relu")
        x = _halve_rows(g, x)
    x = g.conv(x, 512, (2, 1), (2, 1), act="relu")
    x = g.transpose(g.reshape(x, 1, 512, -1), 2, 0, 1)
    for _ in range(2):
        x = g.recurrent(x, 256)
    return g.model(g.linear(x, 37))


def _halve_rows(g: Graph, x: Value) -> Value:
    shape = (*x.shape[:2], x.shape[2] // 2, x.shape[3])
    return g.node("MaxPool", [x], shape, kernel_shape=[2, 1], strides=[2, 1])


def wav2vec_encoder() -> onnx.ModelProto:
    """wav2vec 2.0's shape on one second: seven strided 1-D convolutions, 4 of 12 layers 768 wide (Baevski, 2020)."""
    g = Graph("wav2vec_encoder")
    x = g.input(1, 1, 16000)
    for size, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2), (2, 2)):
        x = g.conv(x, 512, size, stride, act="gelu", pad=0)
    x = g.linear(g.layer_norm(g.transpose(x, 0, 2, 1)), 768)
    position = g.conv(g.transpose(x, 0, 2, 1), 768, 127, groups=16, act="gelu")
    x = g.add(x, g.transpose(position, 0, 2, 1))
    for _ in range(4):
        x = encoder_layer(g, x, 12, 3072)
    return g.model(g.linear(x, 32))


def whisper_tiny_encoder() -> onnx.ModelProto:
    """Whisper-tiny's encoder on ten seconds: two 1-D convolutions, 4 layers 384 wide, 500 steps (Radford, 2022)."""
    g = Graph("whisper_tiny_encoder")
    x = g.conv(g.conv(g.input(1, 80, 1000), 384, 3, act="gelu"), 384, 3, 2, act="gelu")
    x = g.add(g.transpose(x, 0, 2, 1), g.weight(1, 500, 384, fan_in=16))
    for _ in range(4):
        x = encoder_layer(g, x, 6, 1536)
    return g.model(g.layer_norm(x))


def conformer_s() -> onnx.ModelProto:
    """Conformer-S's blocks, 4 of 16: half feed-forwards around attention and depthwise windows of 31 (Gulati, 2020)."""
    g = Graph("conformer_s")
    x = g.conv(g.conv(g.input(1, 1, 400, 80), 144, 3, 2, act="relu"), 144, 3, 2, act="relu")
    x = g.linear(g.reshape(g.transpose(x, 0, 2, 1, 3), 1, 100, -1), 144)
    for _ in range(4):
        x = g.add(x, g.mul(feed_forward(g, g.layer_norm(x), 576, "silu"), g.number(0.5)))
        x = g.add(x, self_attention(g, g.layer_norm(x), 4))
        x = g.add(x, _convolution_module(g, g.layer_norm(x)))
        x = g.add(x, g.mul(feed_forward(g, g.layer_norm(x), 576, "silu"), g.number(0.5)))
        x = g.layer_norm(x)
    return g.model(g.linear(x, 256))


def _convolution_module(g: Graph, x: Value) -> Value:
    width = x.shape[-1]
    y, gate = g.split(g.conv(g.transpose(x, 0, 2, 1), 2 * width), 2)
    y = g.depthwise(g.mul(y, g.act(gate, "sigmoid")), 31, act="silu")
    return g.transpose(g.conv(y, width), 0, 2, 1)


def ecapa_tdnn() -> onnx.ModelProto:
    """ECAPA-TDNN with 512 channels on 200 frames: dilated parts of 64 channels, each added to the next (2020)."""
    g = Graph("ecapa_tdnn")
    x = g.conv(g.input(1, 80, 200), 512, 5, act="relu")
    maps = []
    for dilation in (2, 3, 4):
        y = g.conv(_parts(g, g.conv(x, 512, act="relu"), dilation), 512, act="relu")
        gate = g.conv(g.conv(g.global_pool(y), 128, act="relu"), 512, act="sigmoid")
        x = g.add(x, g.mul(y, gate))
        maps.append(x)
    x = g.conv(g.concat(maps), 1536, act="relu")
    weights = g.softmax(g.conv(g.conv(x, 128, act="tanh"), 1536))
    pooled = g.node("ReduceSum", [g.mul(x, weights), g.integers(2)], (1, 1536), keepdims=0)
    return g.model(g.linear(pooled, 192))


def _parts(g: Graph, x: Value, dilation: int) -> Value:
    """Eight parts of the channels, each convolved after the one before it was added."""
    parts = g.split(x, 8)
    done = [parts[0]]
    for part in parts[1:]:
        source = part if len(done) == 1 else g.add(part, done[-1])
        done.append(g.conv(source, part.channels, 3, dilation=dilation, act="relu"))
    return g.concat(done)


def wavenet() -> onnx.ModelProto:
    """WaveNet-like: two stacks of gated causal convolutions, dilated by 1 to 128, 64 channels (van den Oord, 2016)."""
    g = Graph("wavenet")
    x = g.conv(g.input(1, 1, 2048), 64, 2, causal=True)
    total = None
    for dilation in [2**i for i in range(8)] * 2:
        y = g.act(g.conv(x, 64, 2, dilation=dilation, causal=True), "tanh")
        y = g.mul(y, g.act(g.conv(x, 64, 2, dilation=dilation, causal=True), "sigmoid"))
        skip = g.conv(y, 128)
        total = skip if total is None else g.add(total, skip)
        x = g.add(x, g.conv(y, 64))
    assert total is not None
    return g.model(g.conv(g.conv(g.act(total, "relu"), 128, act="relu"), 256))


def temporal_network() -> onnx.ModelProto:
    """A temporal convolutional network: six residual blocks of dilated causal windows of 7, four series (Bai, 2018)."""
    g = Graph("temporal_network")
    x = g.input(4, 16, 500)
    for level in range(6):
        y = g.conv(x, 50, 7, dilation=2**level, act="relu", causal=True)
        y = g.conv(y, 50, 7, dilation=2**level, act="relu", causal=True)
        x = g.act(g.add(y, x if x.shape == y.shape else g.conv(x, 50)), "relu")
    return g.model(g.linear(g.reshape(g.slice(x, 2, 499, 500), 4, 50), 5))


def vocoder() -> onnx.ModelProto:
    """HiFi-GAN's third generator on 32 frames: transposed 1-D convolutions, dilated blocks (Kong, 2020)."""
    g = Graph("vocoder")
    x = g.conv(g.input(1, 80, 32), 256, 7)
    for stride, size in ((8, 16), (8, 16), (4, 8)):
        x = g.deconv(g.act(x, "leaky_relu"), x.channels // 2, size, stride)
        blocks = [_dilated_block(g, x, size) for size in (3, 5, 7)]
        x = g.mul(g.add(g.add(blocks[0], blocks[1]), blocks[2]), g.number(1 / 3))
    return g.model(g.conv(g.act(x, "leaky_relu"), 1, 7, act="tanh"))


def _dilated_block(g: Graph, x: Value, size: int) -> Value:
    for dilation in (1, size):
        x = g.add(x, g.conv(g.act(x, "leaky_relu"), x.channels, size, dilation=dilation))
    return x


NETWORKS = (
    bigru_tagger, lstm_batch8, crnn, wav2vec_encoder, whisper_tiny_encoder, conformer_s, ecapa_tdnn, wavenet,
    temporal_network, vocoder,
)  # fmt: skip
