"""Agreement of networks of MXNet, with random weights, with MXNet: Gluon's zoo, recurrent ones, transformers, a U-Net.

    python -m bench.frontends.mxnet_networks [--only WORD] [--compile] [--save FOLDER]

Each is exported as a symbol with its parameters and compared with MXNet; "difference" is the largest one over the
largest output. Our side is Relay's interpreter, or with `--compile` the compiled model. `--save` keeps the files. Needs
mxnet 1.9, which is of the time before NumPy 1.24.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

for _name, _kind in (("bool", bool), ("int", int), ("float", float), ("object", object)):
    if _name not in vars(np):  # names that MXNet takes from NumPy, which it has no more
        setattr(np, _name, _kind)

import mxnet as mx  # noqa: E402  (as above)
from mxnet.gluon import nn, rnn  # noqa: E402
from mxnet.gluon.model_zoo import vision  # noqa: E402

import tilewright as tw  # noqa: E402
from bench.frontends.compared import compare_networks, options  # noqa: E402
from tilewright.frontend.mxnet import from_mxnet  # noqa: E402
from tilewright.relay import interpret  # noqa: E402

Shape = tuple[int, ...]
IMAGE = (1, 3, 64, 64)


class Recurrent(nn.HybridBlock):
    """A recurrent layer between a dense one and a pooled head."""

    def __init__(self, kind: str, **settings: Any) -> None:
        super().__init__()
        self.first = nn.Dense(24, flatten=False, activation="tanh")
        self.cells = getattr(rnn, kind)(16, layout="NTC", **settings)
        self.head = nn.Dense(5)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Five numbers a sequence."""
        return self.head(F.mean(self.cells(self.first(x)), axis=1))


class Attention(nn.HybridBlock):
    """Self-attention of four heads, written as GluonNLP writes it or out of plain operators."""

    def __init__(self, width: int, interleaved: bool) -> None:
        super().__init__()
        self.width, self.interleaved = width, interleaved
        self.project, self.out = nn.Dense(3 * width, flatten=False), nn.Dense(width, flatten=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """As `x`, [length, batch, width]."""
        rows = self.project(x)
        if self.interleaved:
            scores = F.softmax(F.contrib.interleaved_matmul_selfatt_qk(rows, heads=4))
            return self.out(F.contrib.interleaved_matmul_selfatt_valatt(rows, scores, heads=4))
        rows = F.transpose(F.reshape(rows, shape=(0, 0, 4, -1)), axes=(1, 2, 0, 3))
        rows = F.reshape(rows, shape=(-3, 0, 0))
        query, key, value = F.split(rows, num_outputs=3, axis=-1)
        scores = F.softmax(F.batch_dot(F.contrib.div_sqrt_dim(query), key, transpose_b=True))
        mixed = F.reshape(F.batch_dot(scores, value), shape=(-4, -1, 4, 0, 0))
        return self.out(F.reshape(F.transpose(mixed, axes=(2, 0, 1, 3)), shape=(0, 0, -3)))


class Transformer(nn.HybridBlock):
    """Words with their positions, two encoder layers, and a head over the words."""

    def __init__(self, interleaved: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 32)
        with self.name_scope():
            self.positions = self.params.get("positions", shape=(12, 32))
        self.attentions, self.norms, self.feeds = (nn.HybridSequential() for _ in range(3))
        for _ in range(2):
            self.attentions.add(Attention(32, interleaved))
            self.norms.add(nn.LayerNorm(), nn.LayerNorm())
            feed = nn.HybridSequential()
            feed.add(nn.Dense(64, flatten=False), nn.GELU(), nn.Dense(32, flatten=False))
            self.feeds.add(feed)
        self.head = nn.Dense(50, flatten=False)

    def hybrid_forward(self, F: Any, words: Any, positions: Any) -> Any:
        """Scores of each word, [length, batch, 50]."""
        x = F.swapaxes(F.broadcast_add(self.words(words), F.expand_dims(positions, axis=0)), 0, 1)
        for position, attention in enumerate(self.attentions):
            x = self.norms[2 * position](x + attention(x))
            x = self.norms[2 * position + 1](x + self.feeds[position](x))
        return self.head(x)


class UNet(nn.HybridBlock):
    """Three steps down and up again, joined step by step; each way up is another one."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.HybridSequential(), nn.HybridSequential()
        for width in (8, 16, 32):
            self.down.add(self.block(width))
        self.middle, self.turned = self.block(64), nn.Conv2DTranspose(32, 4, 2, 1)
        for width in (32, 16, 8):
            self.up.add(self.block(width))
        self.head = nn.Conv2D(2, 1)

    @staticmethod
    def block(width: int) -> Any:
        """Two convolutions."""
        made = nn.HybridSequential()
        made.add(
            nn.Conv2D(width, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"),
            nn.Conv2D(width, 3, padding=1), nn.InstanceNorm(), nn.PReLU(),
        )  # fmt: skip
        return made

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """A map of two classes."""
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = F.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
        x = self.middle(x)
        for position, block in enumerate(self.up):
            if position == 0:
                x = self.turned(x)
            elif position == 1:
                x = F.UpSampling(x, scale=2, sample_type="nearest")
            else:
                x = F.contrib.BilinearResize2D(x, scale_height=2, scale_width=2)
            x = block(F.concat(x, kept[-1 - position], dim=1))
        return F.softmax(self.head(x), axis=1)


class Detector(nn.HybridBlock):
    """SSD in small: two maps with anchors, classes and offsets, decoded and suppressed by MXNet's own operators."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.far = nn.HybridSequential(), nn.HybridSequential()
        self.stem.add(nn.Conv2D(16, 3, 4, 1), nn.BatchNorm(), nn.Activation("relu"))
        self.far.add(nn.Conv2D(24, 3, 2, 1, groups=8), nn.Swish(), nn.MaxPool2D(3, 2, 1))
        self.classes, self.offsets = nn.HybridSequential(), nn.HybridSequential()
        for _ in range(2):
            self.classes.add(nn.Conv2D(4 * 4, 3, padding=1))
            self.offsets.add(nn.Conv2D(4 * 4, 3, padding=1))

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """Rows of class, score and box, best first."""
        near = self.stem(x)
        anchors, scores, boxes = [], [], []
        for position, one in enumerate((near, self.far(near))):
            sizes = (0.2 + 0.3 * position, 0.3 + 0.3 * position)
            anchors.append(F.contrib.MultiBoxPrior(one, sizes=sizes, ratios=(1, 2, 0.5)))
            rows = F.transpose(self.classes[position](one), axes=(0, 2, 3, 1))
            scores.append(F.reshape(rows, shape=(0, -1, 4)))
            boxes.append(F.flatten(F.transpose(self.offsets[position](one), axes=(0, 2, 3, 1))))
        powers = F.softmax(F.transpose(F.concat(*scores, dim=1), axes=(0, 2, 1)), axis=1)
        return F.contrib.MultiBoxDetection(powers, F.concat(*boxes, dim=1), F.concat(*anchors, dim=1), nms_topk=40)


def zoo(name: str) -> Callable[[], Any]:
    """A network of Gluon's zoo of ten classes."""
    return lambda: getattr(vision, name)(classes=10)


_SQUARE: Shape = (1, 3, 224, 224)
_IMAGES: dict[str, Shape] = {
    "inception_v3": (1, 3, 299, 299), **{f"densenet{layers}": _SQUARE for layers in (121, 161, 169, 201)},
    **{f"squeezenet1_{minor}": _SQUARE for minor in (0, 1)},
}  # fmt: skip
_ZOO = (
    "alexnet", *[f"vgg{layers}{kind}" for layers in (11, 13, 16, 19) for kind in ("", "_bn")],
    *[f"resnet{layers}_v{version}" for layers in (18, 34, 50, 101, 152) for version in (1, 2)],
    *[f"mobilenet{kind}{width}" for kind in ("", "_v2_") for width in ("0_25", "0_5", "0_75", "1_0")],
    "squeezenet1_0", "squeezenet1_1", "densenet121", "densenet161", "densenet169", "densenet201", "inception_v3",
)  # fmt: skip

#: Of each network what makes it, and the shapes of its input; "words" are whole numbers below 50.
NETWORKS: dict[str, tuple[Callable[[], Any], Shape]] = {
    **{name: (zoo(name), _IMAGES.get(name, IMAGE)) for name in _ZOO},
    "lstm": (lambda: Recurrent("LSTM", num_layers=2), (2, 7, 20)),
    "bilstm": (lambda: Recurrent("LSTM", bidirectional=True), (2, 7, 20)),
    "gru": (lambda: Recurrent("GRU", num_layers=2), (2, 7, 20)),
    "rnn": (lambda: Recurrent("RNN", bidirectional=True), (2, 7, 20)),
    "rnn_tanh": (lambda: Recurrent("RNN", num_layers=2, activation="tanh"), (2, 7, 20)),
    "words": (lambda: Transformer(False), (2, 12)),
    "words_interleaved": (lambda: Transformer(True), (2, 12)),
    "unet": (UNet, (1, 3, 32, 48)),
    "detector": (Detector, IMAGE),
}


def network(name: str) -> tuple[Any, np.ndarray]:
    """The network with random weights, statistics and offsets, and what it is called with."""
    make, shape = NETWORKS[name]
    mx.random.seed(0)
    block, rng = make(), np.random.default_rng(5)
    block.initialize(mx.init.Xavier())
    x = rng.integers(0, 50, shape).astype("f") if name.startswith("words") else rng.normal(0, 1, shape).astype("f")
    block(mx.nd.array(x))  # which sets the shapes of the weights
    for key, value in block.collect_params().items():
        if key.endswith(("_mean", "beta", "bias")):
            value.set_data(mx.nd.array(rng.normal(0, 0.1, value.shape)))
        elif key.endswith(("_var", "gamma")):
            value.set_data(mx.nd.array(rng.uniform(0.8, 1.2, value.shape)))
    block.hybridize()
    return block, x


def compare(name: str, folder: Path, compiled: bool) -> float:
    """The largest difference over the largest output; infinite where shapes differ."""
    block, x = network(name)
    wanted = block(mx.nd.array(x)).asnumpy()
    block.export(str(folder / "net"))
    mod, _ = from_mxnet(folder / "net-symbol.json", input_shapes={"data": x.shape})
    found: Any = tw.compile(mod, cache=False).run({"data": x}) if compiled else interpret(mod, {"data": x})
    found = np.asarray(found[0] if isinstance(found, list | tuple) else found)
    if name == "detector":  # what was suppressed is marked and stays there in MXNet, and stands behind here
        wanted, found = (one[one[..., 0] >= 0] for one in (wanted, found))
    if found.shape != wanted.shape:
        return float("inf")
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30))


def main() -> None:
    """Print a line a network."""
    compare_networks(NETWORKS, options(__doc__ or "").parse_args(), compare)


if __name__ == "__main__":
    main()
