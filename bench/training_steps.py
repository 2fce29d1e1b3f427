"""Steps of training beside eager PyTorch and Inductor: seconds of one step, interleaved, minima and medians.

    python bench/training_steps.py [--only cnn,gpt] [--threads 1,2] [--rounds 20]
                                   [--engines eager,inductor,tilewright,native,jax]
                                   [--losses 200 [--small]] [--kernels forward|backward]

A step is forward, loss and backward; SGD runs in PyTorch, outside of the compiled graphs and of the time. "tilewright"
and "inductor" are `torch.compile` (Inductor needs a C++ compiler), "native" is a step of `training_step`, whose update
is within it and within the time, "jax" the same network by JAX (`training_jax.py`; needs jax), which is no part of the
best of PyTorch. "processor" is the least processor time of a step, of all threads, which others disturb less.
`--losses N` trains N steps with each engine on the same batches and prints how far the losses are from eager mode's,
with `--small` on batches of which a step takes less than 0.3 s. The engine "float64" is eager mode in that type: how
far eager mode is itself. `--kernels` prints the kernels of one graph of torch.compile by time. Needs torch.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from training_jax import JaxStep

import tilewright
from tilewright import relay, torch_backend
from tilewright.frontend.torch import from_pytorch
from tilewright.training import SGD, Trainer, training_step

RATE = 0.01
ENGINES = ("eager", "inductor", "tilewright", "native")


# -------------------------------------------------------------------------------------------------------- networks
def convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, act: Any = nn.ReLU
) -> nn.Module:
    """A convolution without bias, batch normalization and an activation."""
    layers = [nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


def cnn() -> nn.Module:
    """Three convolutions with batch normalization, two poolings, a mean and a dense layer, for 32×32 images."""
    stages = [convolution(3, 32, 3), nn.MaxPool2d(2), convolution(32, 64, 3), nn.MaxPool2d(2), convolution(64, 128, 3)]
    return nn.Sequential(*stages, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class Residual(nn.Module):
    """`inner(x)` added to x, or to `shortcut(x)`."""

    def __init__(self, inner: nn.Module, shortcut: nn.Module | None = None, act: bool = False) -> None:
        super().__init__()
        self.inner, self.shortcut, self.act = inner, shortcut or nn.Identity(), act

    def forward(self, x: Any) -> Any:
        total = self.inner(x) + self.shortcut(x)
        return F.relu(total) if self.act else total


def resnet18() -> nn.Module:
    """ResNet-18 (He and others, 2015)."""
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for stage, out in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            inner = nn.Sequential(convolution(width, out, 3, stride), convolution(out, out, 3, act=None))
            short = convolution(width, out, 1, stride, act=None) if stride > 1 else None
            layers.append(Residual(inner, short, act=True))
            width = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def mobilenet_v2() -> nn.Module:
    """MobileNet-V2 (Sandler and others, 2018), without dropout."""
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    layers: list[nn.Module] = [convolution(3, 32, 3, 2, act=nn.ReLU6)]
    width = 32
    for factor, out, count, first in table:
        for block in range(count):
            stride, wide = first if block == 0 else 1, width * factor
            parts = [convolution(width, wide, 1, act=nn.ReLU6)] if factor > 1 else []
            parts += [convolution(wide, wide, 3, stride, wide, nn.ReLU6), convolution(wide, out, 1, act=None)]
            inner = nn.Sequential(*parts)
            layers.append(Residual(inner) if stride == 1 and width == out else inner)
            width = out
    layers.append(convolution(width, 1280, 1, act=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


class Attention(nn.Module):
    """Attention of several heads to itself, causal or not."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        batch, steps, width = x.shape
        parts = self.qkv(x).view(batch, steps, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=self.causal)
        return self.out(seen.transpose(1, 2).reshape(batch, steps, width))


def blocks(layers: int, width: int, heads: int, causal: bool) -> nn.Module:
    """Layers of a transformer, normalized before each part."""
    return nn.Sequential(*[
        part for _ in range(layers) for part in (
            Residual(nn.Sequential(nn.LayerNorm(width), Attention(width, heads, causal))),
            Residual(
                nn.Sequential(
                    nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
                )
            ),
        )
    ])  # fmt: skip


class Language(nn.Module):
    """Logits of the token after each of `steps` tokens: a transformer with learned positions."""

    def __init__(self, tokens: int, layers: int, width: int, heads: int, steps: int, causal: bool = True) -> None:
        super().__init__()
        self.table, self.positions = nn.Embedding(tokens, width), nn.Parameter(torch.randn(steps, width) * 0.02)
        self.layers, self.norm = blocks(layers, width, heads, causal), nn.LayerNorm(width)
        self.head = nn.Linear(width, tokens, bias=False)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.layers(self.table(x) + self.positions))).flatten(0, 1)


class VisionTransformer(nn.Module):
    """ViT-Tiny (Touvron and others, 2021): 12 layers of 192, patches of 16 pixels of 224."""

    def __init__(self, layers: int = 12, width: int = 192) -> None:
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, width, 16, 16), nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(197, width) * 0.02)
        self.layers, self.norm = blocks(layers, width, 3, False), nn.LayerNorm(width)
        self.head = nn.Linear(width, 1000)

    def forward(self, x: Any) -> Any:
        seen = self.patches(x).flatten(2).transpose(1, 2)
        seen = torch.cat([self.first.expand(len(x), -1, -1), seen], 1) + self.positions
        return self.head(self.norm(self.layers(seen))[:, 0])


class Recurrent(nn.Module):
    """An LSTM written in steps, for Dynamo does not trace `nn.LSTM`: 32 sequences of 28 rows, as of MNIST."""

    def __init__(self, inputs: int = 28, hidden: int = 128) -> None:
        super().__init__()
        self.hidden, self.into, self.again = hidden, nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden)
        self.head = nn.Linear(hidden, 10)

    def forward(self, x: Any) -> Any:
        gates = self.into(x)
        h = c = torch.zeros(x.shape[0], self.hidden)
        for step in range(x.shape[1]):
            i, f, g, o = (gates[:, step] + self.again(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)


@dataclass(frozen=True)
class Case:
    """A network, the shape of its input, the number of classes; tokens where the input is of integers.

    `small` is the shape of a smaller batch, for comparisons of many steps.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    classes: int
    tokens: int = 0
    small: tuple[int, ...] | None = None

    def batch(self, seed: int) -> tuple[Any, Any]:
        """Input and classes, of which some are in the input."""
        draw = torch.Generator().manual_seed(seed)
        if self.tokens:
            x = torch.randint(self.tokens, self.shape, generator=draw)
            return x, x.roll(-1, 1).flatten()
        y = torch.randint(self.classes, self.shape[:1], generator=draw)
        x = torch.randn(self.shape, generator=draw)
        return x + (y.view(-1, *[1] * (x.dim() - 1)) % 7 - 3) / 6, y


CASES = {
    "cnn": Case(cnn, (32, 3, 32, 32), 10),
    "transformer": Case(lambda: Language(1000, 2, 256, 4, 64), (8, 64), 1000, 1000),
    "resnet18": Case(resnet18, (16, 3, 224, 224), 1000, small=(8, 3, 64, 64)),
    "mobilenet_v2": Case(mobilenet_v2, (16, 3, 224, 224), 1000, small=(8, 3, 96, 96)),
    "lstm": Case(Recurrent, (32, 28, 28), 10),
    "vit_tiny": Case(VisionTransformer, (8, 3, 224, 224), 1000, small=(1, 3, 224, 224)),
    "gpt": Case(lambda: Language(4096, 6, 320, 5, 128), (4, 128), 4096, 4096, small=(1, 128)),
}


# --------------------------------------------------------------------------------------------------------- engines
class TorchStep:
    """Steps of one engine of PyTorch on a copy of `module`."""

    def __init__(self, module: nn.Module, engine: str, threads: int) -> None:
        self.module = copy.deepcopy(module).train()
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=RATE)
        options = {"options": {"threads": threads, "strict": True}} if engine == "tilewright" else {}
        run: Any = lambda x, y: F.cross_entropy(self.module(x), y)  # noqa: E731
        if engine == "float64":
            self.module.double()
            run = lambda x, y: F.cross_entropy(self.module(x if x.dtype == torch.int64 else x.double()), y)  # noqa: E731
        elif engine != "eager":
            torch._dynamo.reset()
            run = torch.compile(run, backend=engine, **options)
        self.run = run

    def __call__(self, x: Any, y: Any) -> float:
        """Forward and backward; the loss."""
        loss = self.run(x, y)
        loss.backward()
        return loss.detach()

    def update(self) -> None:
        """Everything that is not timed."""
        self.optimizer.step()
        self.optimizer.zero_grad()


class NativeStep:
    """Steps of a compiled `training_step`, whose loss is the exported module's, with parameters as inputs."""

    def __init__(self, module: nn.Module, case: Case, threads: int, memory_limit: int | None = None) -> None:
        module = copy.deepcopy(module).train()
        values = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        values = {name: value.detach() for name, value in values.items()}
        names = list(values)

        class Loss(nn.Module):
            def forward(self, x: Any, y: Any, state: list[Any]) -> Any:
                return F.cross_entropy(torch.func.functional_call(_Held.module, dict(zip(names, state)), x), y)

        _Held.module = module
        program = torch.export.export(Loss(), (*case.batch(0), list(values.values())))
        main = from_pytorch(program)[0]["main"]
        self.names, count = names, len(dict(module.named_parameters()))
        results = list(main.body.fields) if isinstance(main.body, relay.Tuple) else [main.body]
        x, y, *state = main.params
        step = training_step(results[0], state[:count], SGD(RATE), results[1:], memory_limit=memory_limit)
        self.model = model = tilewright.compile(step.module, threads=threads, cache=False)
        first = {var.name: value.numpy() for var, value in zip(state, values.values())}
        self.trainer, self._names = Trainer(step, model, first), (x.name, y.name)
        self._more = {v.name: first[v.name] for v in step.inputs if v.name not in self._names}

    def __call__(self, x: Any, y: Any) -> float:
        """One step; the loss."""
        return self.trainer(**dict(zip(self._names, (x.numpy(), y.numpy()))), **self._more)[0]

    def update(self) -> None:
        """Nothing: the step holds the update."""


class _Held:
    """The module that `Loss` calls, which must not be a child of it: its parameters are inputs."""

    module: nn.Module


def steps_of(name: str, engines: list[str], threads: int, small: bool = False) -> Iterator[tuple[str, Any]]:
    """The engines' steps of a network, all from the same weights."""
    torch.manual_seed(0)
    case = case_of(name, small)
    module = case.make()
    for engine in engines:
        if engine == "native":
            made: Any = NativeStep(module, case, threads)
        elif engine == "jax":
            made = JaxStep(copy.deepcopy(module), case.batch(0), threads, RATE)
        else:
            made = TorchStep(module, engine, threads)
        began = time.perf_counter()
        made(*case.batch(0))
        made.update()
        print(f"  {name}: first step by {engine} {time.perf_counter() - began:.1f} s", flush=True)
        yield engine, made


# ------------------------------------------------------------------------------------------------------ measuring
def timed(step: Any, batch: tuple[Any, Any]) -> tuple[float, float]:
    """Wall and processor seconds of a step, JAX's in its own process."""
    began, before = time.perf_counter(), time.process_time()
    step(*batch)
    took = time.perf_counter() - began, time.process_time() - before
    return step.seconds if isinstance(step, JaxStep) else took


def measure(name: str, engines: list[str], threads: int, rounds: int, seconds: float) -> dict[str, float]:
    """Print minima, medians and processor time of the engines' steps, in turns; the minima."""
    steps = dict(steps_of(name, engines, threads))
    batch = CASES[name].batch(0)
    wall: dict[str, list[float]] = {engine: [] for engine in engines}
    used: dict[str, list[float]] = {engine: [] for engine in engines}
    ends = time.perf_counter() + seconds
    for _ in range(rounds):
        for engine, step in steps.items():
            step(*batch)  # brings its weights to the caches
            step.update()
            for _ in range(2):
                took, spent = timed(step, batch)
                wall[engine].append(took)
                used[engine].append(spent)
                step.update()
        if time.perf_counter() > ends:
            break
    least = {engine: min(values) for engine, values in wall.items()}
    thrifty = {engine: min(values) for engine, values in used.items()}
    best, thrift = (
        min((value for engine, value in found.items() if engine in ("eager", "inductor")), default=math.nan)
        for found in (least, thrifty)
    )
    for engine, values in wall.items():
        print(
            f"{name} threads {threads}: {engine:10} min {least[engine] * 1e3:8.2f} ms  median "
            f"{statistics.median(values) * 1e3:8.2f}  processor {thrifty[engine] * 1e3:8.2f}  "
            f"best of PyTorch / this {best / least[engine]:.2f}, of processor time {thrift / thrifty[engine]:.2f}",
            flush=True,
        )
    return {engine: best / value for engine, value in least.items()}


def case_of(name: str, small: bool) -> Case:
    """A network with its batch, or with a smaller one where it has such."""
    case = CASES[name]
    return replace(case, shape=case.small or case.shape) if small else case


def losses(name: str, engines: list[str], threads: int, count: int, small: bool) -> None:
    """Print the last loss of `count` steps by each engine, and the largest distance of all from eager mode's."""
    found: dict[str, list[float]] = {}
    case = case_of(name, small)
    for engine, step in steps_of(name, ["eager", *[one for one in engines if one != "eager"]], threads, small):
        values = []
        for index in range(count):
            values.append(float(step(*case.batch(1 + index % 8))))
            step.update()
        found[engine] = values
        apart = max(abs(a - b) for a, b in zip(values, found["eager"]))
        print(f"{name}: {engine} loss {values[0]:.4f} to {values[-1]:.4f}, at most {apart:.1e} from eager", flush=True)


def kernels(name: str, threads: int, kind: str) -> None:
    """Print the kernels of the forward or backward graph of torch.compile by time."""
    kept: list[tuple[Any, list[Any]]] = []
    compile_model = torch_backend.compile_model

    def kept_model(*args: Any, **options: Any) -> Any:
        model = compile_model(*args, **options)

        class Watched:
            outputs, inputs = model.outputs, model.inputs

            def __call__(self, *given: Any) -> Any:
                kept[:] = [pair for pair in kept if pair[0] is not model] + [(model, list(given))]
                return model(*given)

        return Watched()

    torch_backend.compile_model = kept_model
    for _, step in steps_of(name, ["tilewright"], threads):
        step(*CASES[name].batch(0))
    torch_backend.compile_model = compile_model
    model, given = kept[0 if kind == "forward" else -1]
    feed = {spec.name: np.array(value, order="C") for spec, value in zip(model.inputs, given)}
    rows = model.profile(feed, 10)
    total = sum(row.seconds for row in rows)
    print(f"{name} {kind}: {total * 1e3:.2f} ms in {len(rows)} kernels")
    for row in sorted(rows, key=lambda row: -row.seconds)[:40]:
        rate, choice = row.flops / row.seconds / 1e9, str(dict(row.choice).get("config", ""))
        share = f"{row.seconds * 1e3:8.3f} ms {100 * row.seconds / total:4.1f} % {rate:6.1f} GFLOP/s"
        print(f"{share} {row.kernel[:70]} {choice}")


def main() -> None:
    """Measure the networks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES), help="networks")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60, help="most seconds of measuring a network")
    parser.add_argument("--losses", type=int, default=0, help="compare losses over so many steps")
    parser.add_argument("--small", action="store_true", help="compare losses on smaller batches")
    parser.add_argument("--kernels", choices=("forward", "backward"))
    options = parser.parse_args()
    engines, ratios = options.engines.split(","), dict[tuple[str, int], list[float]]()
    for threads in map(int, options.threads.split(",")):
        torch.set_num_threads(threads)
        for name in options.only.split(","):
            if options.kernels:
                kernels(name, threads, options.kernels)
            elif options.losses:
                losses(name, engines, threads, options.losses, options.small)
            else:
                found = measure(name, engines, threads, options.rounds, options.seconds)
                for engine in set(found) & {"tilewright", "native"}:
                    ratios.setdefault((engine, threads), []).append(found[engine])
    for (engine, threads), values in ratios.items():
        print(f"{engine}, {threads} threads: geometric mean {statistics.geometric_mean(values):.2f}")


if __name__ == "__main__":
    main()
