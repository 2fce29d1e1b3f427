"""Products of few bits beside float32: bench/bitserial.py [--bits W1A2 …] [--network] [--turns N] [--target T].

Layers C2 to C12 of ResNet-18 as the TVM paper numbers them (OSDI 2018, table 2), each with uint8 data in NHWC whose
packing counts, beside float32 of the same layer in NCHW, in turns on one thread: the least processor time of each, and
the geometric mean of the ratios. With `--network` VGG-11 on an image of 224 x 224, its layers after the first with
quantized data and weights of few bits, beside the same network in float32. Results are compared with exact arithmetic
before anything is timed.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import layers
import numpy as np

import tilewright as tw
from tilewright import relay
from tilewright.relay import IRModule, op
from tilewright.relay.op import nn

Array = np.ndarray[Any, Any]


class Layer(NamedTuple):
    """A convolution of square images and windows, padded by half a window."""

    size: int
    channels: int
    filters: int
    window: int
    stride: int


LAYERS = {
    name: Layer(one.size, one.inputs, one.outputs, one.kernel, one.stride)
    for name, one in layers.LAYERS.items()
    if name in [f"C{number}" for number in range(2, 13)]
}

#: Filters of VGG-11, and where it pools.
_VGG = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")
_IMAGE, _CLASSES, _HIDDEN = 224, 1000, 4096


def few_bits(layer: Layer, weight_bits: int, data_bits: int, rng: np.random.Generator) -> tuple[IRModule, Array]:
    """The layer in few bits, and data for it."""
    x = relay.var("x", shape=(1, layer.size, layer.size, layer.channels), dtype="uint8")
    shape = (layer.window, layer.window, layer.channels, layer.filters)
    weight = relay.const(rng.integers(0, 1 << weight_bits, shape).astype("uint8"))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    bits = {"activation_bits": data_bits, "weight_bits": weight_bits}
    out = nn.bitserial_conv2d(x, weight, layer.stride, layer.window // 2, **bits, **layouts)
    data = rng.integers(0, 1 << data_bits, (1, layer.size, layer.size, layer.channels)).astype("uint8")
    return IRModule.from_expr(relay.Function([x], out)), data


def in_floats(layer: Layer, rng: np.random.Generator) -> tuple[IRModule, Array]:
    """The layer in float32, and data for it."""
    x = relay.var("x", shape=(1, layer.channels, layer.size, layer.size), dtype="float32")
    shape = (layer.filters, layer.channels, layer.window, layer.window)
    weight = relay.const(rng.standard_normal(shape).astype("float32"))
    out = nn.conv2d(x, weight, layer.stride, layer.window // 2)
    data = rng.standard_normal((1, layer.channels, layer.size, layer.size)).astype("float32")
    return IRModule.from_expr(relay.Function([x], out)), data


def vgg11(weight_bits: int, data_bits: int, rng: np.random.Generator) -> IRModule:
    """VGG-11; with bits, layers after the first read data quantized to these, in NHWC, and the last is in floats."""
    quantized = weight_bits > 0
    x = relay.var("x", shape=(1, 3, _IMAGE, _IMAGE), dtype="float32")
    y, channels, last = x, 3, len(_VGG)
    for number, filters in enumerate((*_VGG, _HIDDEN, _HIDDEN)):
        if filters == "M":
            y = nn.max_pool2d(y, 2, 2, layout="NHWC" if quantized else "NCHW")
            continue
        assert isinstance(filters, int)
        if number == last:
            y, channels = nn.batch_flatten(y), channels * (_IMAGE // 32) ** 2
        y = _layer(y, filters, channels, number, weight_bits, data_bits, number >= last, rng)
        channels = filters
    weight = relay.const((rng.standard_normal((_CLASSES, channels)) / channels**0.5).astype("float32"))
    y = nn.dense(op.cast(y, "float32") * relay.const(np.float32(1.0)) if quantized else y, weight)
    return IRModule.from_expr(relay.Function([x], y))


def _layer(
    y: relay.Expr, filters: int, channels: int, number: int, weight_bits: int, data_bits: int, dense: bool,
    rng: np.random.Generator,
) -> relay.Expr:  # fmt: skip
    """A convolution or dense layer with its bias; what follows it is relu, or of few bits the codes of the next."""
    shape = (filters, channels) if dense else (filters, channels, 3, 3)
    scale = np.float32(1 / math.prod(shape[1:]) ** 0.5)
    if not weight_bits or number == 0:
        weight = relay.const(rng.standard_normal(shape).astype("float32") * scale)
        y = nn.dense(y, weight) if dense else nn.conv2d(y, weight, 1, 1)
        bias = relay.const(rng.standard_normal((filters,) if dense else (filters, 1, 1)).astype("float32"))
        if not weight_bits:
            return nn.relu(y + bias)
        return op.transpose(_codes(y + bias, data_bits), (0, 2, 3, 1))
    if dense:
        planes = relay.const(rng.integers(0, 1 << weight_bits, shape).astype("uint8"))
        y = nn.bitserial_dense(y, planes, data_bits, weight_bits, "int32")
    else:
        kernel = relay.const(rng.integers(0, 1 << weight_bits, (3, 3, channels, filters)).astype("uint8"))
        bits = {"activation_bits": data_bits, "weight_bits": weight_bits, "out_dtype": "int32"}
        y = nn.bitserial_conv2d(y, kernel, 1, 1, **bits, data_layout="NHWC", kernel_layout="HWIO")
    bias = relay.const(rng.standard_normal(filters).astype("float32"))
    return _codes(op.cast(y, "float32") * relay.const(scale) + bias, data_bits)


def _codes(y: relay.Expr, bits: int) -> relay.Expr:
    """The codes of relu(y) in `bits` bits, with a step of one."""
    return op.cast(op.clip(op.round(y), 0.0, float((1 << bits) - 1)), "uint8")


def in_turns(runs: list[Callable[[], Any]], turns: int) -> list[float]:
    """The least seconds of this thread's processor time of each of `runs`, in turns."""
    least = [math.inf] * len(runs)
    for _ in range(turns):
        for number, run in enumerate(runs):
            start = time.process_time()
            run()
            least[number] = min(least[number], time.process_time() - start)
    return least


def layers(weight_bits: int, data_bits: int, options: argparse.Namespace) -> float:
    """Prints the table of layers; returns the geometric mean of the ratios."""
    print(f"W{weight_bits}A{data_bits}   kernel          float32 µs   few bits µs   ratio")
    ratios = []
    for name, layer in LAYERS.items():
        rng = np.random.default_rng(layer)
        (mod, codes), (plain, floats) = few_bits(layer, weight_bits, data_bits, rng), in_floats(layer, rng)
        ours = tw.compile(mod, threads=1, target=options.target)
        theirs = tw.compile(plain, threads=1, target=options.target)
        np.testing.assert_array_equal(ours(codes), relay.interpret(mod, [codes])[0])
        theirs(floats)
        seconds = in_turns([lambda: theirs(floats), lambda: ours(codes)], options.turns)  # noqa: B023
        ratios.append(seconds[0] / seconds[1])
        print(f"{name:6} {method_of(mod, options.target):15} {seconds[0] * 1e6:10.1f} {seconds[1] * 1e6:13.1f}"
              f" {ratios[-1]:7.2f}", flush=True)  # fmt: skip
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean of the ratios {mean:.2f}\n", flush=True)
    return mean


def method_of(mod: IRModule, target: str) -> str:
    """The method that the cost model chooses for the only product of `mod`."""
    from tilewright.backend import backend_of
    from tilewright.relay.transform.quantize.bitserial_products import bitserial_products

    text = str(bitserial_products(mod, backend_of(tw.Target(target))))
    found = re.search(r'method="?(\w+)', text)
    return found[1] if found else "bytes"


def network(weight_bits: int, data_bits: int, options: argparse.Namespace) -> float:
    """Prints the times of VGG-11; returns their ratio."""
    image = np.random.default_rng(1).standard_normal((1, 3, _IMAGE, _IMAGE)).astype("float32")
    mods = [vgg11(*bits, np.random.default_rng(0)) for bits in ((0, 0), (weight_bits, data_bits))]
    runs = [tw.compile(mod, threads=1, target=options.target) for mod in mods]
    found, expected = runs[1](image), relay.interpret(mods[1], [image])[0]
    print(f"VGG-11 W{weight_bits}A{data_bits}: largest difference {np.abs(found - expected).max():.2g}"
          f" of {np.abs(expected).max():.3g}")  # fmt: skip
    seconds = in_turns([lambda run=run: run(image) for run in runs], max(3, options.turns // 10))
    ratio = seconds[0] / seconds[1]
    print(f"float32 {seconds[0] * 1e3:.1f} ms, few bits {seconds[1] * 1e3:.1f} ms, ratio {ratio:.2f}\n", flush=True)
    return ratio


def main() -> None:
    """Print the tables of the bits on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bits", nargs="+", default=["W1A2", "W1A1", "W2A2"], help="such as W1A2")
    parser.add_argument("--network", action="store_true", help="VGG-11 too")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    for spelled in options.bits:
        found = re.fullmatch(r"W([1-4])A([1-4])", spelled)
        if found is None:
            parser.error(f"--bits {spelled}: W1A1 to W4A4 are supported")
        layers(int(found[1]), int(found[2]), options)
        if options.network:
            network(int(found[1]), int(found[2]), options)


if __name__ == "__main__":
    main()
