"""Draws of TFLite's integer operators: for each a model of one, with random types, scales, zero points and options."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.frontend.tflite.builder import Graph, T, build, graph_of_one

#: Fused activations as the schema numbers them: none, RELU, RELU_N1_TO_1, RELU6.
ACTIVATIONS = (0, 0, 1, 2, 3)


@dataclass(frozen=True)
class Case:
    """A graph of one operator and how it is fed: so often, floats between `low` and `high`.

    `defined` is true for the elements that the kernel's C++ defines, by the inputs. Without `reference` the reference
    kernel is broken, and the oracle is the usual one, without XNNPACK.
    """

    graph: Graph
    text: str
    low: float = -4.0
    high: float = 4.0
    runs: int = 1
    defined: Callable[[list[np.ndarray]], np.ndarray] | None = None
    reference: bool = True

    @property
    def model(self) -> bytes:
        """The file of the graph."""
        return build(self.graph)


class Random(random.Random):
    """Random numbers of a case."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.numbers = np.random.default_rng(seed)

    def scale(self, low: float = 0.002, high: float = 0.5) -> float:
        """A scale between both, evenly by its logarithm; at times a power of two."""
        value = 2.0 ** self.uniform(np.log2(low), np.log2(high))
        return float(np.float32(2.0 ** round(np.log2(value)) if self.random() < 0.1 else value))

    def zero(self, dtype: str) -> int:
        """A zero point: 0 for 16 bits, anywhere for others."""
        low, high = {"int8": (-128, 127), "uint8": (0, 255), "int16": (0, 0)}[dtype]
        return self.choice([self.randint(low, high), self.randint(low, high), low, high, (low + high + 1) // 2])

    def codes(self, dtype: str, *shape: int, like: T | None = None, scale: float = 0.0, zero: Any = None) -> T:
        """A quantized tensor, at the scale of another where one is passed."""
        if like is not None:
            return T(shape, dtype, scale=like.scale, zero=like.zero)
        return T(shape, dtype, scale=scale or self.scale(), zero=self.zero(dtype) if zero is None else zero)

    def shape(self, rank: int | None = None, most: int = 7) -> tuple[int, ...]:
        """Sizes."""
        rank = rank or self.choice([1, 2, 2, 3, 4])
        return tuple(self.randint(1, most) for _ in range(rank))

    def constant(self, dtype: str, shape: Sequence[int], **quantization: Any) -> T:
        """Constant codes of the whole range; int8 without its least."""
        low, high = {"int8": (-127, 127), "uint8": (0, 255), "int16": (-32767, 32767)}.get(dtype, (-30000, 30000))
        return T(shape, dtype, self.numbers.integers(low, high, shape, endpoint=True), **quantization)


def ints(value: Any) -> T:
    """A constant of int32."""
    data = np.asarray(value, "int32")
    return T(data.shape, "int32", data)


def case(name: str, inputs: list[T | None], outputs: list[T], options: Any = None, **keywords: Any) -> Case:
    """A case of one operator."""
    intermediates = keywords.pop("intermediates", ())

    def text(tensor: T | None) -> str:
        if tensor is None:
            return "–"
        scale = np.atleast_1d(tensor.scale)[:2].tolist() if tensor.scale is not None else ""
        return f"{tensor.dtype}{list(tensor.shape)} {scale} {tensor.zero}"

    shown = f"{[text(t) for t in inputs]} -> {[text(t) for t in outputs]} {options[1] if options else ''}"
    return Case(graph_of_one(name, inputs, outputs, options, intermediates), shown, **keywords)


# ------------------------------------------------------------------------------------------------------ products
def bias_of(r: Random, dtype: str, count: int, scale: Any) -> T | None:
    """A bias at the product's scale, of 64 bits (or 32) beside data of 16."""
    if r.random() < 0.2:
        return None
    kind = "int32" if dtype != "int16" or r.random() < 0.3 else "int64"
    limit = r.choice([100, 5000, 200_000])
    values = r.numbers.integers(-limit, limit, count, endpoint=True)
    return T((count,), kind, values, scale=np.atleast_1d(np.asarray(scale, np.float32)), zero=0)


def filter_of(r: Random, dtype: str, shape: tuple[int, ...], axis: int, each: bool = True) -> T:
    """Weights: uint8 with a zero point, int8 symmetric, a scale for all or for each channel."""
    if dtype == "uint8":
        return r.constant("uint8", shape, scale=r.scale(0.002, 0.05), zero=r.randint(0, 255))
    scales = [r.scale(0.001, 0.05) for _ in range(shape[axis] if each and r.random() < 0.7 else 1)]
    return r.constant("int8", shape, scale=scales, zero=0, axis=axis)


def bias_type(bias: T | None) -> dict[str, Any]:
    """The option that says of which type the bias beside data of 16 bits is; without it the kernels take 64."""
    return {"quantizedBiasType": 2} if bias is not None and bias.dtype == "int32" else {}


def windows(r: Random, size: tuple[int, int], kernel: tuple[int, int], dilations: tuple[int, int]) -> tuple[Any, Any]:
    """(options, output size) of a window over an image."""
    padding, strides = r.choice([0, 1]), (r.choice([1, 1, 2, 3]), r.choice([1, 1, 2]))
    spread = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    extents = [-(-(n if padding == 0 else n - s + 1) // t) for n, s, t in zip(size, spread, strides)]
    return {"padding": padding, "strideH": strides[0], "strideW": strides[1]}, extents


def output_scale(r: Random, data: T, weight: T, depth: int) -> float:
    """A scale that most sums fit, or nearly."""
    typical = float(data.scale) * float(np.max(weight.scale)) * 90 * 90 * max(depth, 1) ** 0.5 / 100
    return float(np.float32(typical * 2.0 ** r.uniform(-1.5, 2))) * (1 / 256 if data.dtype == "int16" else 1)


def conv2d(r: Random) -> Case:
    """CONV_2D, grouped at times."""
    dtype = r.choice(["int8", "int8", "uint8", "int16"])
    size, kernel = (r.randint(3, 9), r.randint(3, 9)), (r.randint(1, 3), r.randint(1, 3))
    groups = r.choice([1, 1, 1, 2]) if dtype == "int8" else 1
    channels, filters = groups * r.randint(1, 6), groups * r.randint(1, 6)
    dilations = (1, 1) if groups > 1 else (r.choice([1, 1, 2]), r.choice([1, 1, 2]))
    options, extents = windows(r, size, kernel, dilations)
    if min(extents) < 1:
        return conv2d(r)
    data = r.codes(dtype, r.randint(1, 2), *size, channels)
    weight = filter_of(r, dtype, (filters, *kernel, channels // groups), 0)
    result = r.codes(dtype, data.shape[0], *extents, filters,
                     scale=output_scale(r, data, weight, weight.data[0].size))  # fmt: skip
    bias = bias_of(r, dtype, filters, np.asarray(weight.scale) * data.scale)
    options |= {"dilationHFactor": dilations[0], "dilationWFactor": dilations[1]}
    options |= {"fusedActivationFunction": r.choice(ACTIVATIONS), **bias_type(bias)}
    return case("CONV_2D", [data, weight, bias], [result], ("Conv2DOptions", options))


def depthwise(r: Random) -> Case:
    """DEPTHWISE_CONV_2D."""
    dtype = r.choice(["int8", "int8", "uint8", "int16"])
    size, kernel = (r.randint(3, 9), r.randint(3, 9)), (r.randint(1, 3), r.randint(1, 3))
    channels, multiplier = r.randint(1, 6), r.choice([1, 1, 2, 3])
    dilations = (r.choice([1, 1, 2]), r.choice([1, 1, 2]))
    options, extents = windows(r, size, kernel, dilations)
    if min(extents) < 1:
        return depthwise(r)
    data = r.codes(dtype, r.randint(1, 2), *size, channels)
    weight = filter_of(r, dtype, (1, *kernel, channels * multiplier), 3)
    scale = output_scale(r, data, weight, kernel[0] * kernel[1])
    result = r.codes(dtype, data.shape[0], *extents, channels * multiplier, scale=scale)
    bias = bias_of(r, dtype, channels * multiplier, np.asarray(weight.scale) * data.scale)
    options |= {"dilationHFactor": dilations[0], "dilationWFactor": dilations[1], "depthMultiplier": multiplier}
    options["fusedActivationFunction"] = r.choice(ACTIVATIONS)
    return case("DEPTHWISE_CONV_2D", [data, weight, bias], [result], ("DepthwiseConv2DOptions", options))


def transpose_conv(r: Random) -> Case:
    """TRANSPOSE_CONV."""
    dtype = r.choice(["int8", "int8", "uint8", "int16"])
    size, kernel, strides = (
        (r.randint(1, 5), r.randint(1, 5)),
        (r.randint(1, 3), r.randint(1, 3)),
        (r.randint(1, 3), r.randint(1, 3)),
    )
    padding = r.choice([0, 1])
    extents = [n * s if padding == 0 else (n - 1) * s + k for n, s, k in zip(size, strides, kernel)]
    channels, filters, batch = r.randint(1, 5), r.randint(1, 5), r.randint(1, 2)
    data = r.codes(dtype, batch, *size, channels)
    weight = filter_of(r, dtype, (filters, *kernel, channels), 0)
    shape = (batch, *extents, filters)
    scale = output_scale(r, data, weight, channels * kernel[0])
    bias = bias_of(r, dtype, filters, np.asarray(weight.scale) * data.scale)
    options = {"padding": padding, "strideH": strides[0], "strideW": strides[1],
               "fusedActivationFunction": r.choice([0, 0, 1]),
        **bias_type(bias),
    }  # fmt: skip
    inputs: list[T | None] = [ints(shape), weight, data, *([bias] if bias else [])]
    return case("TRANSPOSE_CONV", inputs, [r.codes(dtype, *shape, scale=scale)], ("TransposeConvOptions", options))


def fully_connected(r: Random) -> Case:
    """FULLY_CONNECTED."""
    dtype = r.choice(["int8", "int8", "uint8", "int16"])
    rows, depth, units = r.randint(1, 5), r.randint(1, 70), r.randint(1, 20)
    data, weight = r.codes(dtype, rows, depth), filter_of(r, dtype, (units, depth), 0)
    if dtype == "int8" and r.random() < 0.2:
        weight = r.constant("int8", (units, depth), scale=r.scale(0.002, 0.05), zero=r.randint(-128, 127))
    bias = bias_of(r, dtype, units, np.asarray(weight.scale) * data.scale)
    result = r.codes(dtype, rows, units, scale=output_scale(r, data, weight, depth))
    options = {"fusedActivationFunction": r.choice(ACTIVATIONS), **bias_type(bias)}
    return case("FULLY_CONNECTED", [data, weight, bias], [result], ("FullyConnectedOptions", options))


def batch_matmul(r: Random) -> Case:
    """BATCH_MATMUL."""
    dtype = r.choice(["int8", "int8", "int16"])
    lead, (m, k, n) = r.shape(r.choice([1, 2]), 3), r.shape(3, 9)
    adj_x, adj_y = r.random() < 0.3, r.random() < 0.3
    a = r.codes(dtype, *lead, *((k, m) if adj_x else (m, k)))
    b = r.codes(dtype, *lead, *((n, k) if adj_y else (k, n)))
    spread = {"int8": 100, "int16": 30000}[dtype]
    scale = float(a.scale) * float(b.scale) * spread * k**0.5 * 2.0 ** r.uniform(-2, 1)
    result = r.codes(dtype, *lead, m, n, scale=float(np.float32(scale)))
    return case("BATCH_MATMUL", [a, b], [result], ("BatchMatMulOptions", {"adjX": adj_x, "adjY": adj_y}))


# --------------------------------------------------------------------------------------------------- elementwise
def binary(
    name: str, options: str, dtypes: Sequence[str], same: bool = False, activations: bool = True
) -> Callable[[Random], Case]:
    """An operator of two tensors, of one shape or broadcast."""

    def draw(r: Random) -> Case:
        dtype, shape = r.choice(dtypes), r.shape()
        other = tuple(1 if r.random() < 0.3 else size for size in shape)[r.choice([0, 0, len(shape) - 1]) :]
        a = r.codes(dtype, *shape)
        b = r.codes(dtype, *r.choice([shape, other]), like=a if same else None)
        reach = 127 if dtype != "int16" else 32767
        scale = max(float(a.scale), float(b.scale)) * r.uniform(0.7, 2.5)
        if name in ("MUL", "SQUARED_DIFFERENCE"):
            scale = float(a.scale) * float(b.scale) * reach * 2.0 ** r.uniform(-1.5, 1)
        if name == "DIV":
            scale = float(a.scale) / float(b.scale) * 2.0 ** r.uniform(-4, 2)
        result = r.codes(dtype, *shape, like=a if same else None, scale=float(np.float32(scale)))
        values: dict[str, Any] = {"fusedActivationFunction": r.choice(ACTIVATIONS)} if activations else {}
        if name in ("ADD", "SUB") and dtype == "int16":
            values["potScaleInt16"] = False
        inputs: list[T | None] = [a, b] if name == "DIV" or r.random() < 0.7 else [b, a]
        defined = partial(short_shifts, a, b, result) if name == "DIV" else None
        return case(name, inputs, [result], (options, values) if options else None, defined=defined)

    return draw


def short_shifts(a: T, b: T, result: T, feeds: list[np.ndarray]) -> np.ndarray:
    """The quotients that the kernel of DIV shifts by 31 at most; by more is undefined in C++, and yields anything."""
    left, right = (np.asarray(feed, np.int64) - t.zero for feed, t in zip(feeds, (a, b)))
    left = np.where(right < 0, -left, left)
    headroom = 31 - np.frexp(np.where(left < 0, -left - 1, left).astype(np.float64))[1]
    over = np.frexp(np.maximum(np.abs(right), 1).astype(np.float64))[1] - 1
    return headroom + over - math.frexp(float(np.float32(a.scale / np.float64(b.scale * result.scale))))[1] <= 31


def comparison(name: str) -> Callable[[Random], Case]:
    """A comparison of quantized tensors."""

    def draw(r: Random) -> Case:
        dtype, shape = r.choice(["int8", "uint8"]), r.shape()
        a = r.codes(dtype, *shape)
        b = r.codes(dtype, *shape, like=a if r.random() < 0.4 else None)
        return case(name, [a, b], [T(shape, "bool")])

    return draw


def unary(
    name: str, dtypes: Sequence[str], fixed: dict[str, tuple[float, int]] | None = None, options: Any = None,
    like: bool = False, positive: bool = False, scales: tuple[float, float] = (0.002, 0.3), reach: float = 0.0,
) -> Callable[[Random], Case]:  # fmt: skip
    """An operator of one tensor, whose output has a fixed scale, that of the input, one of `reach`, or any."""

    def draw(r: Random) -> Case:
        dtype, shape = r.choice(dtypes), (r.randint(1, 9), r.randint(20, 300))
        least = {"int8": -128, "uint8": 0, "int16": 0}[dtype]
        scale = r.scale(*scales) * (1 / 256 if dtype == "int16" else 1)
        data = r.codes(dtype, *shape, scale=float(np.float32(scale)), zero=least if positive else None)
        result = r.codes(dtype, *shape, like=data if like else None, scale=float(np.float32(scale * r.uniform(0.4, 2))))
        if reach:
            limit = reach / (32767 if dtype == "int16" else 127)
            result = r.codes(dtype, *shape, scale=float(np.float32(limit * 2.0 ** r.uniform(-1, 2))))
        if fixed is not None:
            result = T(shape, dtype, scale=fixed[dtype][0], zero=fixed[dtype][1])
        return case(name, [data], [result], options(r) if options else None)

    return draw


def prelu(r: Random) -> Case:
    """PRELU with slopes of channels."""
    dtype, shape = r.choice(["int8", "uint8"]), r.shape(4, 5)
    data = r.codes(dtype, *shape)
    slopes = r.constant(dtype, (1, 1, shape[3]), scale=r.scale(0.001, 0.02), zero=r.zero(dtype))
    result = r.codes(dtype, *shape, scale=float(np.float32(data.scale * r.uniform(0.4, 2))))
    return case("PRELU", [data, slopes], [result])


# ----------------------------------------------------------------------------------------------- windows and sizes
def pool(name: str) -> Callable[[Random], Case]:
    """Pooling at one scale."""

    def draw(r: Random) -> Case:
        dtype = r.choice(["int8", "uint8", "int16"])
        size, kernel = (r.randint(3, 9), r.randint(3, 9)), (r.randint(1, 4), r.randint(1, 4))
        options, extents = windows(r, size, kernel, (1, 1))
        if min(extents) < 1:
            return draw(r)
        data = r.codes(dtype, r.randint(1, 2), *size, r.randint(1, 7))
        options |= {"filterHeight": kernel[0], "filterWidth": kernel[1]}
        options["fusedActivationFunction"] = r.choice(ACTIVATIONS)
        result = r.codes(dtype, data.shape[0], *extents, data.shape[3], like=data)
        return case(name, [data], [result], ("Pool2DOptions", options))

    return draw


def reduction(name: str, dtypes: Sequence[str], same: bool) -> Callable[[Random], Case]:
    """A reduction along some axes."""

    def draw(r: Random) -> Case:
        dtype, shape = r.choice(dtypes), r.shape(r.choice([2, 3, 4]), 6)
        axes = sorted(r.sample(range(len(shape)), r.randint(1, len(shape))))
        keep = r.random() < 0.5
        left = [1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes]
        data = r.codes(dtype, *shape)
        count = int(np.prod([shape[a] for a in axes]))
        scale = float(data.scale) * r.uniform(0.3, 1.5) * (count if name == "SUM" else 1)
        result = r.codes(dtype, *left, like=data if same else None, scale=float(np.float32(scale)))
        given = [a - len(shape) if r.random() < 0.3 else a for a in axes]
        broken = name == "SUM" and dtype != "uint8"
        options = ("ReducerOptions", {"keepDims": keep})
        return case(name, [data, ints(given)], [result], options, reference=not broken)

    return draw


def resize(name: str, options: str) -> Callable[[Random], Case]:
    """Resizing at one scale."""

    def draw(r: Random) -> Case:
        dtype, shape, size = r.choice(["int8", "uint8", "int16"]), r.shape(4, 7), r.shape(2, 12)
        align = r.random() < 0.3
        values = {"alignCorners": align, "halfPixelCenters": not align and r.random() < 0.5}
        data = r.codes(dtype, *shape)
        result = r.codes(dtype, shape[0], *size, shape[3], like=data)
        return case(name, [data, ints(size)], [result], (options, values))

    return draw


def concatenation(r: Random) -> Case:
    """CONCATENATION; of uint8 at scales that differ."""
    dtype, shape = r.choice(["int8", "uint8", "int16"]), r.shape()
    axis, count = r.randrange(len(shape)), r.randint(1, 4)
    parts: list[T | None] = []
    first = r.codes(dtype, *shape)
    sizes = [r.randint(1, 5) for _ in range(count)]
    for size in sizes:
        part = [size if d == axis else n for d, n in enumerate(shape)]
        parts.append(r.codes(dtype, *part, like=None if dtype == "uint8" and r.random() < 0.7 else first))
    joined = [sum(sizes) if d == axis else n for d, n in enumerate(shape)]
    options = {"axis": r.choice([axis, axis - len(shape)])}
    return case("CONCATENATION", parts, [r.codes(dtype, *joined, like=first)], ("ConcatenationOptions", options))


def pad(r: Random) -> Case:
    """PAD, which pads by the zero point."""
    dtype, shape = r.choice(["int8", "uint8", "int16"]), r.shape()
    widths = [[r.randint(0, 2), r.randint(0, 2)] for _ in shape]
    data = r.codes(dtype, *shape)
    result = r.codes(dtype, *[n + a + b for n, (a, b) in zip(shape, widths)], like=data)
    return case("PAD", [data, ints(widths)], [result])


def padv2(r: Random) -> Case:
    """PADV2 by a code."""
    dtype, shape = r.choice(["int8", "uint8"]), r.shape()
    widths = [[r.randint(0, 2), r.randint(0, 2)] for _ in shape]
    data = r.codes(dtype, *shape)
    fill = T((1,), dtype, r.numbers.integers(0, 100, 1), scale=data.scale, zero=data.zero)
    result = r.codes(dtype, *[n + a + b for n, (a, b) in zip(shape, widths)], like=data)
    return case("PADV2", [data, ints(widths), fill], [result])


def mirror_pad(r: Random) -> Case:
    """MIRROR_PAD."""
    dtype, shape, mode = (
        r.choice(["int8", "uint8"]),
        tuple(r.randint(3, 6) for _ in range(r.randint(1, 4))),
        r.choice([0, 1]),
    )
    widths = [[r.randint(0, 2), r.randint(0, 2)] for _ in shape]
    data = r.codes(dtype, *shape)
    result = r.codes(dtype, *[n + a + b for n, (a, b) in zip(shape, widths)], like=data)
    return case("MIRROR_PAD", [data, ints(widths)], [result], ("MirrorPadOptions", {"mode": mode}))


def moved(name: str) -> Callable[[Random], Case]:
    """Operators that move codes: TRANSPOSE, RESHAPE, SLICE, GATHER, SPACE_TO_DEPTH."""

    def draw(r: Random) -> Case:
        dtype, shape = r.choice(["int8", "uint8", "int16"]), r.shape(r.choice([2, 3, 4]), 6)
        data = r.codes(dtype, *shape)
        if name == "TRANSPOSE":
            perm = r.sample(range(len(shape)), len(shape))
            return case(name, [data, ints(perm)], [r.codes(dtype, *[shape[p] for p in perm], like=data)])
        if name == "RESHAPE":
            new = (int(np.prod(shape[:-1])), shape[-1])
            return case(
                name, [data, ints(new)], [r.codes(dtype, *new, like=data)], ("ReshapeOptions", {"newShape": new})
            )
        if name == "SLICE":
            begin = [r.randrange(n) for n in shape]
            size = [r.randint(1, n - b) for n, b in zip(shape, begin)]
            return case(name, [data, ints(begin), ints(size)], [r.codes(dtype, *size, like=data)])
        axis = r.randrange(len(shape))
        index = r.numbers.integers(0, shape[axis], r.randint(1, 5))
        new = (*shape[:axis], len(index), *shape[axis + 1 :])
        return case(name, [data, ints(index)], [r.codes(dtype, *new, like=data)], ("GatherOptions", {"axis": axis}))

    return draw


def blocks(name: str) -> Callable[[Random], Case]:
    """SPACE_TO_DEPTH and DEPTH_TO_SPACE, SPACE_TO_BATCH_ND."""

    def draw(r: Random) -> Case:
        dtype, block = r.choice(["int8", "uint8"]), r.choice([1, 2, 3])
        n, h, w, c = r.randint(1, 2), r.randint(1, 4), r.randint(1, 4), r.randint(1, 4)
        large, deep = (n, h * block, w * block, c), (n, h, w, c * block * block)
        given, wanted = (large, deep) if name == "SPACE_TO_DEPTH" else (deep, large)
        options = f"{''.join(part.title() for part in name.split('_'))}Options"
        data = r.codes(dtype, *given)
        if name == "SPACE_TO_BATCH_ND":
            data, stacked = r.codes(dtype, *large), (n * block * block, h, w, c)
            return case(
                name, [data, ints([block, block]), ints([[0, 0], [0, 0]])], [r.codes(dtype, *stacked, like=data)]
            )
        return case(name, [data], [r.codes(dtype, *wanted, like=data)], (options, {"blockSize": block}))

    return draw


# ------------------------------------------------------------------------------------------------------- scales
def quantize(r: Random) -> Case:
    """QUANTIZE of floats, or of codes at another scale or type."""
    shape = (r.randint(1, 9), r.randint(20, 200))
    dtype = r.choice(["int8", "uint8", "int16"])
    if r.random() < 0.5:
        scale = r.scale(0.005, 0.1) / (256 if dtype == "int16" else 1)
        return case("QUANTIZE", [T(shape)], [r.codes(dtype, *shape, scale=float(np.float32(scale)))], low=-6, high=6)
    given = r.choice(["int8", "uint8", "int16"])
    data = r.codes(given, *shape)
    factor = {("int16", "int8"): 256, ("int16", "uint8"): 256, ("int8", "int16"): 1 / 256, ("uint8", "int16"): 1 / 256}
    scale = float(data.scale) * factor.get((given, dtype), 1) * 2.0 ** r.uniform(-1.5, 1.5)
    return case("QUANTIZE", [data], [r.codes(dtype, *shape, scale=float(np.float32(scale)))])


def dequantize(r: Random) -> Case:
    """DEQUANTIZE."""
    shape, dtype = r.shape(), r.choice(["int8", "uint8", "int16"])
    return case("DEQUANTIZE", [r.codes(dtype, *shape)], [T(shape)])


def arg(name: str) -> Callable[[Random], Case]:
    """ARG_MAX and ARG_MIN."""

    def draw(r: Random) -> Case:
        dtype, shape = r.choice(["int8", "uint8"]), r.shape(r.choice([2, 3]), 9)
        axis = r.randrange(len(shape))
        left = tuple(n for d, n in enumerate(shape) if d != axis)
        options = (f"Arg{name[4:].title()}Options", {"outputType": 2})
        return case(name, [r.codes(dtype, *shape), ints(axis)], [T(left, "int32")], options)

    return draw


# ----------------------------------------------------------------------------------------------------- recurrent
def lstm(r: Random) -> Case:
    """UNIDIRECTIONAL_SEQUENCE_LSTM of int8 with cells of 16 bits, over two runs.

    Never with peepholes and a projection: LiteRT's kernel takes one's width for the other's, and may end the process.
    """
    steps, batch, width, units = r.randint(1, 4), r.randint(1, 3), r.randint(1, 9), r.randint(1, 9)
    coupled, peephole = r.random() < 0.3, r.random() < 0.3
    projected = not peephole and r.random() < 0.5
    out = r.randint(1, 9) if projected else units
    gates = [not coupled, True, True, True]

    def weight(*shape: int) -> T:
        return r.constant("int8", shape, scale=r.scale(0.001, 0.03), zero=0)

    data = T((batch, steps, width), "int8", scale=r.scale(0.01, 0.1), zero=r.zero("int8"))
    inputs: list[T | None] = [data, *[weight(units, width) if there else None for there in gates]]
    inputs += [weight(units, out) if there else None for there in gates]
    peep = [peephole and not coupled, peephole, peephole]
    inputs += [r.constant("int16", (units,), scale=r.scale(1e-5, 1e-3), zero=0) if there else None for there in peep]
    inputs += [T((units,), "int32", r.numbers.integers(-900, 900, units), scale=0.0003) if t else None for t in gates]
    bias = T((out,), "int32", r.numbers.integers(-900, 900, out), scale=0.0003)
    inputs += [weight(out, units) if projected else None, bias if projected and r.random() < 0.5 else None]
    scale, zero = r.scale(0.004, 0.012), r.zero("int8")
    inputs += [T((batch, out), "int8", variable=True, scale=scale, zero=zero)]
    inputs += [T((batch, units), "int16", variable=True, scale=2.0 ** -r.choice([11, 12, 13]), zero=0)]
    inputs += [None] * 4
    hidden = T((), "int8", scale=scale, zero=zero)
    if projected:
        hidden = T((), "int8", scale=r.scale(0.004, 0.012), zero=r.zero("int8"))
    between = [T((), "int16", scale=2.0**-12)] * 4 + [hidden]
    options = {"fusedActivationFunction": 4, "cellClip": r.choice([0.0, 1.5, 3.0])}
    options["projClip"] = r.choice([0.0, 0.5]) if projected else 0.0
    result = T((batch, steps, out), "int8", scale=scale, zero=zero)
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    return case(name, inputs, [result], ("UnidirectionalSequenceLSTMOptions", options), intermediates=between, runs=2)


def svdf(r: Random) -> Case:
    """SVDF of int8 with a state of 16 bits, over three runs."""
    batch, width, rank, units, memory = (
        r.randint(1, 3),
        r.randint(1, 9),
        r.choice([1, 2, 3]),
        r.randint(1, 6),
        r.randint(2, 7),
    )
    filters = rank * units
    state = 2.0 ** -r.uniform(8, 11)
    time_scale = 2.0 ** -r.uniform(11, 13)
    data = T((batch, width), "int8", scale=r.scale(0.01, 0.1), zero=r.zero("int8"))
    over_time = r.constant("int16", (filters, memory), scale=float(np.float32(time_scale)), zero=0)
    bias = T((units,), "int32", r.numbers.integers(-9000, 9000, units), scale=float(np.float32(time_scale * state)))
    weight = r.constant("int8", (filters, width), scale=r.scale(0.002, 0.05), zero=0)
    kept = T((batch, memory * filters), "int16", variable=True, scale=float(np.float32(state)), zero=0)
    inputs: list[T | None] = [data, weight, over_time, bias, kept]
    result = T((batch, units), "int8", scale=r.scale(0.05, 0.6), zero=r.zero("int8"))
    options = ("SVDFOptions", {"rank": rank, "fusedActivationFunction": r.choice([0, 1])})
    return case("SVDF", inputs, [result], options, runs=3)


def rows(
    name: str, options: Any, fixed: dict[str, tuple[float, int]], dtypes: Sequence[str], scales: tuple[float, float]
) -> Callable[[Random], Case]:
    """An operator along the last axis whose output has a fixed scale."""

    def draw(r: Random) -> Case:
        dtype = r.choice(dtypes)
        shape = (*r.shape(r.choice([1, 1, 2, 3]), 4), r.randint(1, 60))
        scale = r.scale(*scales) * (1 / 256 if dtype == "int16" else 1)
        wanted = fixed[dtype]
        data = r.codes(dtype, *shape, scale=float(np.float32(scale)))
        return case(name, [data], [T(shape, dtype, scale=wanted[0], zero=wanted[1])], options(r))

    return draw


ALL = ("int8", "uint8", "int16")
BYTES = ("int8", "uint8")
_SHARE = {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)}
_SIGNED = {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)}

#: Operators that compute. The reference kernel of SUM leaves its result unwritten for int8 and int16.
PRODUCTS_AND_FUNCTIONS: dict[str, Callable[[Random], Case]] = {
    "CONV_2D": conv2d, "DEPTHWISE_CONV_2D": depthwise, "TRANSPOSE_CONV": transpose_conv,
    "FULLY_CONNECTED": fully_connected, "BATCH_MATMUL": batch_matmul,
    "ADD": binary("ADD", "AddOptions", ALL), "SUB": binary("SUB", "SubOptions", ALL),
    "MUL": binary("MUL", "MulOptions", ALL), "DIV": binary("DIV", "DivOptions", ("uint8", "int8")),
    "MAXIMUM": binary("MAXIMUM", "MaximumMinimumOptions", ALL, same=True, activations=False),
    "MINIMUM": binary("MINIMUM", "MaximumMinimumOptions", ALL, same=True, activations=False),
    "SQUARED_DIFFERENCE": binary("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", ("int8",), activations=False),
    **{name: comparison(name) for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")},
    "AVERAGE_POOL_2D": pool("AVERAGE_POOL_2D"), "MAX_POOL_2D": pool("MAX_POOL_2D"),
    "MEAN": reduction("MEAN", ALL, same=False), "SUM": reduction("SUM", ALL, same=False),
    "REDUCE_MAX": reduction("REDUCE_MAX", ALL, same=True), "REDUCE_MIN": reduction("REDUCE_MIN", ALL, same=True),
    "REDUCE_PROD": reduction("REDUCE_PROD", ("int8", "int16"), same=False),
    "SOFTMAX": rows("SOFTMAX", lambda r: ("SoftmaxOptions", {"beta": r.choice([1.0, 1.0, 0.7, 2.0])}), _SHARE, ALL,
                    (0.005, 0.5)),
    "LOG_SOFTMAX": rows("LOG_SOFTMAX", lambda r: ("LogSoftmaxOptions", {}),
                        {"int8": (1 / 16, 127), "uint8": (1 / 16, 255)}, BYTES, (0.005, 0.5)),
    "L2_NORMALIZATION": rows("L2_NORMALIZATION", lambda r: ("L2NormOptions", {}), _SIGNED, BYTES, (0.005, 0.5)),
    "LOGISTIC": unary("LOGISTIC", ALL, _SHARE), "TANH": unary("TANH", ALL, _SIGNED),
    "RELU": unary("RELU", ALL), "RELU_0_TO_1": unary("RELU_0_TO_1", BYTES),
    "RELU6": unary("RELU6", BYTES), "RELU_N1_TO_1": unary("RELU_N1_TO_1", BYTES),
    "LEAKY_RELU": unary("LEAKY_RELU", ALL, options=lambda r: ("LeakyReluOptions", {"alpha": r.uniform(-0.5, 1.5)})),
    "PRELU": prelu, "HARD_SWISH": unary("HARD_SWISH", BYTES), "ELU": unary("ELU", ("int8",)),
    "GELU": unary("GELU", BYTES, options=lambda r: ("GeluOptions", {"approximate": r.random() < 0.5})),
    "ABS": unary("ABS", ("int8", "int16")), "NEG": unary("NEG", ("int8",), like=True),
    "RSQRT": unary("RSQRT", ("int8", "int16"), positive=True, reach=6.0),
    "SQRT": unary("SQRT", ("int8",), positive=True, reach=4.0),
    "LOG": unary("LOG", ("int8", "int16"), positive=True, reach=6.0),
    "EXP": unary("EXP", ("int8", "int16"), scales=(0.002, 0.04), reach=20.0),
    "RESIZE_BILINEAR": resize("RESIZE_BILINEAR", "ResizeBilinearOptions"),
    "RESIZE_NEAREST_NEIGHBOR": resize("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    "CONCATENATION": concatenation, "PAD": pad, "PADV2": padv2, "MIRROR_PAD": mirror_pad,
    **{name: moved(name) for name in ("TRANSPOSE", "RESHAPE", "SLICE", "GATHER")},
    **{name: blocks(name) for name in ("SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SPACE_TO_BATCH_ND")},
    "QUANTIZE": quantize, "DEQUANTIZE": dequantize, "ARG_MAX": arg("ARG_MAX"), "ARG_MIN": arg("ARG_MIN"),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm, "SVDF": svdf,
}  # fmt: skip
