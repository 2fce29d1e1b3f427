"""Networks beside eager PyTorch and Inductor: seconds of one inference, interleaved, with the same number of threads.

    python bench/frontends/torch_speed.py [--threads 1] [--rounds 20] [--train] [NAME ...]

`torch.compile` runs each with the backends "tilewright" and "inductor" (which needs a C++ compiler, and half a minute
for each network); "tw.compile" is the module compiled by examples and called on NumPy arrays. Each is measured in turns
with eager PyTorch, and a line printed at once. `--train` compares one step of training instead. Needs torch and
torchvision.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from vision import models

import tilewright
from tilewright.torch_backend import tilewright as backend


class Layer(torch.nn.Module):
    """A layer of a decoder that reads one token and the keys and values of those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: Any, keys: Any, values: Any) -> tuple[Any, Any, Any]:
        batch, steps, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, steps, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        keys, values = torch.cat([keys, key], 2), torch.cat([values, value], 2)
        seen = torch.nn.functional.scaled_dot_product_attention(query, keys, values)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, steps, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.behind(x)))), keys, values


class Decoder(torch.nn.Module):
    """Six layers, with the cache of each given and handed back."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 6) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(width, heads) for _ in range(layers)])

    def forward(self, x: Any, *cache: Any) -> tuple[Any, ...]:
        kept = []
        for layer, keys, values in zip(self.layers, cache[::2], cache[1::2]):
            x, *new = layer(x, keys, values)
            kept += new
        return (x, *kept)


def network(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A network with random weights, and its inputs."""
    torch.manual_seed(0)
    if name == "decoder":
        return Decoder().eval(), (torch.randn(1, 1, 512), *[torch.randn(1, 8, 255, 64) for _ in range(12)])
    return models.get_model(name, weights=None).eval(), (torch.randn(1, 3, 224, 224),)


def ways_of(module: Any, inputs: tuple[Any, ...], threads: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Engines that run a network beside eager PyTorch, by name, compared with it, one after another."""
    wanted = [value.numpy() for value in torch.utils._pytree.tree_leaves(module(*inputs))]
    model = tilewright.compile(module, inputs, threads=threads, cache=False)
    feed = {spec.name: value.numpy() for spec, value in zip(model.inputs, inputs)}
    for found, right in zip(model.run(feed), wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-3)
    yield "tw.compile", lambda: model.run(feed)
    for label, kind in (("tilewright", backend), ("inductor", "inductor")):
        torch._dynamo.reset()
        options = {"options": {"threads": threads}} if kind is backend else {}
        compiled = torch.compile(module, backend=kind, **options)
        torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-3, atol=1e-3)
        yield label, lambda compiled=compiled: compiled(*inputs)


def least(first: Callable[[], Any], second: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The least seconds of two ways, in turns of some calls: each has weights of its own, which fill the cache."""
    best = [float("inf")] * 2
    for _ in range(rounds):
        for position, run in enumerate((first, second)):
            for _ in range(4):
                began = time.perf_counter()
                run()
                best[position] = min(best[position], time.perf_counter() - began)
    return best[0], best[1]


def compare(name: str, threads: int, rounds: int) -> None:
    """Print a line a way to run a network, as soon as it is measured."""
    module, inputs = network(name)
    ours = None
    with torch.no_grad():
        for label, run in ways_of(module, inputs, threads):
            eager, seconds = least(lambda: module(*inputs), run, rounds)
            ratio = f"{eager / seconds:.2f} times eager ({eager * 1e3:.2f} ms)"
            if label == "tilewright":
                ours = run
            elif label == "inductor" and ours is not None:
                theirs, beside = least(run, ours, rounds)
                ratio += f"; tilewright beside it {beside * 1e3:.2f} ms, {theirs / beside:.2f} times inductor"
            print(f"{name}: {label} {seconds * 1e3:.2f} ms, {ratio}", flush=True)


def train(name: str, threads: int) -> None:
    """Print how far gradients and parameters after one step of training are from eager PyTorch's, and seconds."""
    module, inputs = network(name)
    batch = [torch.cat([value, value.flip(-1)]) for value in inputs]
    seconds: list[float] = []
    found: list[list[Any]] = []
    for one in (module.train(), copy.deepcopy(module)):
        run = torch.compile(one, backend=backend, options={"threads": threads}) if found else one
        optimizer = torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)
        for step in range(3):
            began = time.perf_counter()
            optimizer.zero_grad()
            leaves = torch.utils._pytree.tree_leaves(run(*batch))
            torch.stack([leaf.square().mean() for leaf in leaves]).sum().backward()
            optimizer.step()
            took = time.perf_counter() - began
            if step == 0:
                found.append([value.clone() for value in one.state_dict().values()])
                found.append([value.grad.clone() for value in one.parameters()])
        seconds.append(took)
    states, gradients = (_difference(found[position], found[position + 2]) for position in (0, 1))
    print(
        f"{name}: after one step of training parameters and buffers differ by {states:.1e}, gradients by "
        f"{gradients:.1e}; the third step took eager {seconds[0] * 1e3:.0f} ms, tilewright {seconds[1] * 1e3:.0f} ms",
        flush=True,
    )


def _difference(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference of two lists of tensors, beside the largest element of each where that is above 1."""
    pairs = [(a.double(), b.double()) for a, b in zip(ours, theirs, strict=True)]
    return max(float((a - b).abs().max() / a.abs().max().clamp(min=1)) for a, b in pairs if a.numel())


def main() -> None:
    """Print a line a network and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["resnet18", "mobilenet_v2", "vit_b_16", "decoder"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--train", action="store_true", help="compare one step of training instead")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.names:
        if options.train:
            train(name, options.threads)
        else:
            compare(name, options.threads, options.rounds)


if __name__ == "__main__":
    main()
