"""Networks beside eager PyTorch and Inductor: seconds of one inference, interleaved, with the same number of threads.

    python bench/frontends/torch_speed.py [--threads 1] [--rounds 20] [NAME ...]

`torch.compile` runs each with the backends "tilewright" and "inductor" (which needs a C++ compiler); "tw.compile" is
the module compiled by examples and called on NumPy arrays. Needs torch and torchvision.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

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


def ways_of(module: Any, inputs: tuple[Any, ...], threads: int) -> dict[str, Callable[[], Any]]:
    """What runs a network, by name; the compiled ones have been compared with eager PyTorch."""
    model = tilewright.compile(module, inputs, threads=threads)
    feed = {spec.name: value.numpy() for spec, value in zip(model.inputs, inputs)}
    ways: dict[str, Callable[[], Any]] = {"eager": lambda: module(*inputs), "tw.compile": lambda: model.run(feed)}
    for label, kind in (("tilewright", backend), ("inductor", "inductor")):
        torch._dynamo.reset()
        compiled = torch.compile(module, backend=kind)
        torch.testing.assert_close(compiled(*inputs), module(*inputs), rtol=1e-3, atol=1e-3)
        ways[label] = lambda compiled=compiled: compiled(*inputs)
    return ways


def least(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least seconds of each way, in turns."""
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, run in ways.items():
            began = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - began)
    return found


def main() -> None:
    """Print a line a network."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["resnet18", "mobilenet_v2", "vit_b_16", "decoder"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.names:
        with torch.no_grad():
            seconds = least(ways_of(*network(name), options.threads), options.rounds)
        times = ", ".join(f"{label} {value * 1e3:.2f} ms" for label, value in seconds.items())
        ratios = [seconds[peer] / seconds["tilewright"] for peer in ("eager", "inductor")]
        print(f"{name}: {times}; {ratios[0]:.2f} times eager, {ratios[1]:.2f} times inductor", flush=True)


if __name__ == "__main__":
    main()
