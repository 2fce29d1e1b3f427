"""Agreement of networks of Paddle, with random weights, with Paddle: its zoo, recurrent ones, transformers, a U-Net.

    python -m bench.frontends.paddle_networks [--only WORD] [--legacy] [--compile] [--save FOLDER]

Each is saved by `paddle.jit.save`, as JSON of today's programs, or with `--legacy` as protocol buffers of the older
ones, and compared with Paddle; "difference" is the largest one over the largest output. Our side is Relay's
interpreter, or with `--compile` the compiled model. `--save` keeps the files. Needs paddlepaddle.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if "--legacy" in sys.argv:
    os.environ["FLAGS_enable_pir_api"] = "0"  # noqa: SIM112  (its name)

import numpy as np
import paddle
from paddle import nn

import tilewright as tw
from bench.frontends.compared import compare_networks, options
from tilewright.frontend.paddle import from_paddle
from tilewright.relay import interpret

Shape = tuple[int, ...]
IMAGE = (1, 3, 64, 64)


class Of(nn.Layer):
    """A function of layers that are its parts."""

    def __init__(self, function: Callable[..., Any], *parts: Any) -> None:
        super().__init__()
        self.parts = nn.LayerList(parts)
        self.function = function

    def forward(self, x: Any) -> Any:
        """The function's result."""
        return self.function(list(self.parts), x)


def recurrent(kind: str, **settings: Any) -> Any:
    """A recurrent layer between a linear one and a pooled head."""

    def run(parts: Any, x: Any) -> Any:
        return parts[2](parts[1](paddle.tanh(parts[0](x)))[0].mean(1))

    return Of(run, nn.Linear(20, 24), getattr(nn, kind)(24, 16, **settings), nn.Linear(16 * (
        2 if settings.get("direction") == "bidirect" else 1), 5))  # fmt: skip


class LanguageModel(nn.Layer):
    """Token and position embedding, two encoder layers that look back only, and a head over the words."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = paddle.triu(paddle.full([12, 12], -1e9), 1)
        self.words, self.positions = nn.Embedding(50, 32), nn.Embedding(12, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu", normalize_before=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(32, 50)

    def forward(self, words: Any) -> Any:
        """Scores of each word."""
        return self.head(self.body(self.words(words) + self.positions(paddle.arange(12)), self.mask))


class Translator(nn.Layer):
    """Encoder and decoder over two sequences."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Transformer(32, 4, 2, 2, 64)

    def forward(self, source: Any, target: Any) -> Any:
        """As the target."""
        return self.body(source, target)


class UNet(nn.Layer):
    """Three steps down and up again, joined step by step; half of the ways up by transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        widths = (8, 16, 32)
        self.down = nn.LayerList(
            [self.block(before, after) for before, after in zip((3, *widths[:-1]), widths, strict=True)]
        )
        self.middle = self.block(32, 64)
        self.turned = nn.Conv2DTranspose(64, 32, 2, 2)
        self.up = nn.LayerList([self.block(64, 32), self.block(48, 16), self.block(24, 8)])
        self.head = nn.Conv2D(8, 2, 1)

    @staticmethod
    def block(before: int, after: int) -> Any:
        """Two convolutions."""
        return nn.Sequential(
            nn.Conv2D(before, after, 3, padding=1), nn.BatchNorm2D(after), nn.ReLU(),
            nn.Conv2D(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.LeakyReLU(0.1),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        """A map of two classes."""
        kept = []
        for block in self.down:
            x = block(x)
            kept.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.middle(x)
        for position, block in enumerate(self.up):
            if position == 0:
                x = self.turned(x)
            else:
                x = nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=position == 1)
            x = block(paddle.concat([x, kept[-1 - position]], 1))
        return nn.functional.softmax(self.head(x), 1)


class Detector(nn.Layer):
    """A small backbone with two heads of boxes, decoded and suppressed without a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, 16, 3, 2, 1), nn.BatchNorm2D(16), nn.Hardswish())
        self.far = nn.Sequential(nn.Conv2D(16, 24, 3, 2, 1, groups=8), nn.Swish(), nn.MaxPool2D(3, 2, 1))
        self.heads = nn.LayerList([nn.Conv2D(16, 12, 1), nn.Conv2D(24, 12, 1)])

    def forward(self, x: Any) -> Any:
        """The best twenty boxes with their scores, best first."""
        near = self.stem(x)
        maps = [self.heads[0](near), self.heads[1](self.far(near))]
        rows = paddle.concat(
            [one.reshape([1, 2, 6, -1]).transpose([0, 3, 1, 2]).reshape([1, -1, 6]) for one in maps], 1
        )
        scores, positions = paddle.topk(nn.functional.sigmoid(rows[0, :, 4] * 0.05), 20)
        boxes = paddle.gather(rows[0, :, :4], positions)
        centre, size = boxes[:, :2], paddle.exp(paddle.clip(boxes[:, 2:], max=4.0))
        return paddle.concat([centre - size / 2, centre + size / 2, scores.unsqueeze(-1)], 1)


def zoo(name: str, **settings: Any) -> Callable[[], Any]:
    """A network of `paddle.vision.models` of ten classes."""
    return lambda: getattr(paddle.vision.models, name)(num_classes=10, **settings)


_IMAGES: dict[str, Shape] = {
    "inception_v3": (1, 3, 96, 96), "googlenet": (1, 3, 224, 224), "LeNet": (1, 1, 28, 28), "alexnet": (1, 3, 224, 224),
}  # fmt: skip
_ZOO = (
    "LeNet", "alexnet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101",
    "resnet152", "resnext50_32x4d", "resnext50_64x4d", "resnext101_32x4d", "resnext101_64x4d", "resnext152_32x4d",
    "resnext152_64x4d", "wide_resnet50_2", "wide_resnet101_2", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_small",
    "mobilenet_v3_large", "shufflenet_v2_x0_25", "shufflenet_v2_x0_33", "shufflenet_v2_x0_5", "shufflenet_v2_x1_0",
    "shufflenet_v2_x1_5", "shufflenet_v2_x2_0", "shufflenet_v2_swish", "squeezenet1_0", "squeezenet1_1",
    "densenet121", "densenet161", "densenet169", "densenet201", "densenet264", "googlenet", "inception_v3",
)  # fmt: skip

#: Of each network what makes it, and the shapes of its inputs; those of whole numbers are below 50.
NETWORKS: dict[str, tuple[Callable[[], Any], tuple[Shape, ...], str]] = {
    **{name: (zoo(name), (_IMAGES.get(name, IMAGE),), "float32") for name in _ZOO},
    "lstm": (lambda: recurrent("LSTM", num_layers=2), ((2, 7, 20),), "float32"),
    "bilstm": (lambda: recurrent("LSTM", direction="bidirect"), ((2, 7, 20),), "float32"),
    "gru": (lambda: recurrent("GRU", num_layers=2), ((2, 7, 20),), "float32"),
    "bigru": (lambda: recurrent("GRU", direction="bidirect"), ((2, 7, 20),), "float32"),
    "rnn": (lambda: recurrent("SimpleRNN"), ((2, 7, 20),), "float32"),
    "language_model": (LanguageModel, ((2, 12),), "int64"),
    "translator": (Translator, ((2, 9, 32), (2, 7, 32)), "float32"),
    "unet": (UNet, ((1, 3, 32, 48),), "float32"),
    "detector": (Detector, (IMAGE,), "float32"),
}


def network(name: str) -> tuple[Any, list[np.ndarray]]:
    """The network in inference, its statistics and offsets drawn at random, and what it is called with."""
    make, shapes, dtype = NETWORKS[name]
    paddle.seed(0)
    layer, rng = make(), np.random.default_rng(5)
    layer.eval()
    for key, value in layer.state_dict().items():
        if key.endswith(("_mean", "bias")):
            value.set_value(rng.normal(0, 0.1, value.shape).astype("f"))
        elif key.endswith("_variance"):
            value.set_value(rng.uniform(0.8, 1.2, value.shape).astype("f"))
    whole = dtype == "int64"
    given = [rng.integers(0, 50, one) if whole else rng.normal(0, 1, one).astype("f") for one in shapes]
    return layer, given


def saved(layer: Any, given: list[np.ndarray], folder: Path, first: int = 0) -> Path:
    """The path of the program, of which the axes before `first` are open."""
    shapes = [[*[None] * first, *one.shape[first:]] for one in given]
    specs = [
        paddle.static.InputSpec(shape, str(one.dtype), f"x{position}")
        for position, (shape, one) in enumerate(zip(shapes, given))
    ]
    paddle.jit.save(layer, str(folder / "net"), input_spec=specs)
    return next(path for path in (folder / "net.json", folder / "net.pdmodel") if path.is_file())


def compare(name: str, folder: Path, compiled: bool, open_batch: bool = False) -> float:
    """The largest difference over the largest output; infinite where shapes differ."""
    layer, given = network(name)
    wanted = layer(*(paddle.to_tensor(one) for one in given))
    wanted = [one.numpy() for one in (wanted if isinstance(wanted, list | tuple) else [wanted])]
    path = saved(layer, given, folder, int(open_batch))
    mod, specs = from_paddle(path)
    feed = {f"x{position}": one for position, one in enumerate(given)}
    feed = {spec.name: feed.get(spec.name, one) for spec, one in zip(specs, given, strict=True)}
    found: Any = tw.compile(mod, cache=False).run(feed) if compiled else interpret(mod, feed)
    found = [np.asarray(one) for one in (found if isinstance(found, list | tuple) else [found])]
    if [one.shape for one in found] != [one.shape for one in wanted]:
        return float("inf")
    pairs = zip(found, wanted, strict=True)
    return max(float(np.abs(one - other).max() / max(np.abs(other).max(), 1e-30)) for one, other in pairs)


def main() -> None:
    """Print a line a network."""
    parser = options(__doc__ or "")
    parser.add_argument("--legacy", action="store_true")
    parser.add_argument("--open", action="store_true", help="programs for any batch")
    args = parser.parse_args()
    compare_networks(NETWORKS, args, partial(compare, open_batch=args.open))


if __name__ == "__main__":
    main()
