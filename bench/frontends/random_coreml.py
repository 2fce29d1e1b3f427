"""Random networks as Core ML programs and as neural networks, made by coremltools out of PyTorch, against PyTorch.

    python -m bench.frontends.random_coreml [--seeds 0 50] [--formats program,network] [--compile]
        [--log FILE] [--seconds 300]

Core ML itself runs on Apple's systems only, so that the results are compared with those of the network that was
converted. Needs torch and coremltools.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import torch
from torch import nn
from torch.nn import functional

import tilewright as tw
from bench.frontends.compared import BOUND, compare_cases, options
from tilewright.frontend.coreml import from_coreml
from tilewright.relay import interpret

Run = Callable[[torch.Tensor], torch.Tensor]


class Step(nn.Module):
    """A function of one tensor, with the layers that it uses."""

    def __init__(self, run: Run, *layers: nn.Module) -> None:
        super().__init__()
        self.layers, self.run = nn.ModuleList(layers), run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The function's result."""
        return self.run(x)


class Network(nn.Module):
    """Steps one after the other; some add or join what an earlier one gave."""

    def __init__(self, steps: Sequence[nn.Module], joins: dict[int, tuple[int, str]]) -> None:
        super().__init__()
        self.steps, self.joins = nn.ModuleList(steps), joins

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The last step's result."""
        found = [x]
        for position, step in enumerate(self.steps):
            made = step(found[-1])
            if position in self.joins:
                other, kind = found[self.joins[position][0]], self.joins[position][1]
                made = made + other if kind == "add" else made * torch.sigmoid(other)
            found.append(made)
        return found[-1]


def _of(*layers: nn.Module) -> Step:
    return Step(nn.Sequential(*layers), *layers)


def _pick(rng: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(rng.integers(len(choices)))]


def _over_images(rng: np.random.Generator, c: int) -> nn.Module:
    """A step over [N, c, H, W]."""
    out, size = _pick(rng, [4, 6, 8]), _pick(rng, [1, 3, (1, 3)])
    return _pick(rng, [
        lambda: _of(nn.Conv2d(c, out, size, _pick(rng, [1, 2]), _pick(rng, [0, 1]), bias=bool(rng.integers(2)))),
        lambda: _of(nn.Conv2d(c, out, 3, padding=2, dilation=2, groups=2 if c % 2 == out % 2 == 0 else 1)),
        lambda: _of(nn.Conv2d(c, c, 3, padding=1, groups=c)), lambda: _of(nn.ConvTranspose2d(c, out, 2, 2)),
        lambda: _of(nn.ConvTranspose2d(c, out, 3, 2, 1, output_padding=1)),
        lambda: _of(nn.MaxPool2d(3, 2, 1)), lambda: _of(nn.AvgPool2d(2, 1, count_include_pad=bool(rng.integers(2)))),
        lambda: _of(nn.AvgPool2d(3, 2, 1, count_include_pad=bool(rng.integers(2)))), lambda: _of(nn.BatchNorm2d(c)),
        lambda: _of(nn.InstanceNorm2d(c, affine=True)), lambda: _of(nn.GroupNorm(2 if c % 2 == 0 else 1, c)),
        lambda: _of(nn.Upsample(scale_factor=2, mode="nearest")), lambda: _of(nn.PReLU(c)),
        lambda: _of(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=bool(rng.integers(2)))),
        lambda: _of(nn.ReflectionPad2d((1, 0, 2, 1))), lambda: _of(nn.ZeroPad2d((0, 1, 2, 1))),
        lambda: _of(nn.PixelShuffle(2)) if c % 4 == 0 else _of(nn.Identity()),
        lambda: Step(lambda x: x * torch.sigmoid(x.mean((2, 3), keepdim=True))),
        lambda: Step(lambda x: torch.cat([x[:, 1:], x[:, :1] * 0.5], 1)), lambda: Step(lambda x: x.transpose(2, 3)),
        lambda: Step(lambda x: x[:, :, ::2, 1:]), lambda: Step(lambda x: functional.normalize(x, dim=1)),
        lambda: Step(lambda x: x.flip(3)), lambda: Step(lambda x: torch.stack([x, -x], 2).flatten(1, 2)),
        lambda: _elementwise(rng),
    ])()  # fmt: skip


def _elementwise(rng: np.random.Generator) -> nn.Module:
    kinds = [
        nn.ReLU(), nn.ReLU6(), nn.Sigmoid(), nn.Tanh(), nn.ELU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), nn.Softplus(),
        nn.Softsign(), nn.Hardsigmoid(), nn.Hardswish(), nn.LeakyReLU(0.2), nn.Mish(), nn.Hardtanh(-0.5, 0.7),
        nn.Softmax(1), nn.LogSoftmax(1), nn.Threshold(0.1, -0.2), Step(lambda x: x.abs().sqrt()), Step(torch.sin),
        Step(lambda x: x.clamp(-1, 1) ** 2), Step(lambda x: torch.exp(-x.abs())), Step(lambda x: 1 / (1.5 + x.abs())),
        Step(lambda x: torch.where(x > 0.1, x, -x)), Step(lambda x: torch.maximum(x, 0.3 * x)), Step(torch.floor),
        Step(lambda x: torch.erf(x)), Step(lambda x: torch.log(x.abs() + 1)), Step(lambda x: torch.rsqrt(x * x + 1)),
    ]  # fmt: skip
    return _pick(rng, kinds)


def _over_sequences(rng: np.random.Generator, c: int) -> nn.Module:
    """A step over [N, T, c]."""
    out = _pick(rng, [4, 6])
    rows = [nn.LSTM(c, out, batch_first=True), nn.GRU(c, out, batch_first=True), nn.RNN(c, out, batch_first=True)]
    layer = _pick(rng, rows[:1] if rng.random() < 0.7 else rows)
    both = nn.LSTM(c, 3, batch_first=True, bidirectional=True)
    return _pick(rng, [
        lambda: _of(nn.Linear(c, out)), lambda: _of(nn.LayerNorm(c)), lambda: Step(lambda x: layer(x)[0], layer),
        lambda: Step(lambda x: both(x)[0], both), lambda: Step(lambda x: x.cumsum(1) * 0.2),
        lambda: Step(lambda x: torch.softmax(x @ x.transpose(1, 2) / c**0.5, -1) @ x),
        lambda: Step(lambda x: functional.scaled_dot_product_attention(x, x * 0.5, x)),
        lambda: Step(lambda x: x - x.amax(1, keepdim=True)), lambda: Step(lambda x: torch.einsum("btc,bsc->bts", x, x)),
        lambda: Step(lambda x: x.topk(2, 1)[0]), lambda: Step(lambda x: x.roll(1, 2)), lambda: _elementwise(rng),
    ])()  # fmt: skip


@functools.lru_cache(maxsize=1)
def network(seed: int) -> tuple[Network, torch.Tensor]:
    """A network of five outputs and what it is called with; the same for the same seed."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    x = torch.randn(1, 3, _pick(rng, [9, 12, 16]), _pick(rng, [8, 12, 15]))
    net = Network([], {})
    _grow(net, x, rng, _over_images, 1, int(rng.integers(3, 9)))
    if rng.random() < 0.5:
        net.steps.append(Step(lambda x: x.flatten(2).transpose(1, 2)[:, :12]))
        _grow(net, x, rng, _over_sequences, 2, int(rng.integers(1, 4)))
    net.steps.append(nn.Flatten())
    net.steps.append(nn.Linear(net(x).shape[1], 5))
    return net.eval(), x


def _grow(net: Network, x: torch.Tensor, rng: np.random.Generator, kind: Any, axis: int, count: int) -> None:
    """Add `count` steps, each tried on the results of those before it."""
    for _ in range(4 * count):
        with torch.no_grad():
            shapes = [x.shape]
            value = x
            for position in range(len(net.steps)):
                value = Network(net.steps[: position + 1], net.joins)(x)
                shapes.append(value.shape)
            made = kind(rng, value.shape[axis]).eval()
            try:
                shape = made(value).shape
            except RuntimeError:  # too small for it
                continue
        if len(shape) != len(value.shape) or min(shape[1:]) < 2 or int(np.prod(shape)) > 20000:
            continue
        alike = [position for position, one in enumerate(shapes) if one == shape]
        if alike and rng.random() < 0.5:
            net.joins[len(net.steps)] = (_pick(rng, alike), _pick(rng, ["add", "gate"]))
        net.steps.append(made)
        count -= 1
        if not count:
            break


def compare(case: str, folder: Path, compiled: bool) -> float:
    """The largest difference over the largest output of "SEED FORMAT"."""
    seed, kind = case.split()
    net, x = network(int(seed))
    with torch.no_grad():
        wanted = net(x).numpy()
        traced = torch.jit.trace(net, x)
    spec = [ct.TensorType("x", shape=tuple(x.shape))]
    if kind == "network":
        path = folder / "net.mlmodel"
        ct.convert(traced, inputs=spec, convert_to="neuralnetwork").save(str(path))
    else:
        path = folder / "net.mlpackage"
        made = ct.convert(
            traced, inputs=spec, convert_to="mlprogram", compute_precision=ct.precision.FLOAT32, skip_model_load=True
        )
        made.save(str(path))
    mod, specs = from_coreml(path)
    feed = {specs[0].name: x.numpy()}
    found: Any = tw.compile(mod, cache=False).run(feed) if compiled else interpret(mod, feed)
    found = np.asarray(found[0] if isinstance(found, list | tuple) else found)
    if found.shape != wanted.shape:
        return float("inf")
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-30))


def main() -> None:
    """Print a line a network and format."""
    warnings.simplefilter("ignore")
    parser = options(__doc__ or "")
    parser.add_argument("--formats", default="program,network")
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 50))
    args = parser.parse_args()
    cases = [f"{seed} {kind}" for seed in range(*args.seeds) for kind in args.formats.split(",")]
    compare_cases(cases, args, compare, lambda _: BOUND)


if __name__ == "__main__":
    main()
