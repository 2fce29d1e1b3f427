"""Each builtin operator, over types and options, against LiteRT's reference kernels: integers bit for bit."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.frontend.tflite.builder import T, check, opened, outputs_of, single
from tilewright.frontend.tflite import from_tflite

rng = np.random.default_rng(7)


def f(*shape: int) -> T:
    return T(shape)


def q(dtype: str, *shape: int, scale: float = 0.05, zero: int | None = None) -> T:
    default = {"int8": -5, "uint8": 121, "int16": 0}[dtype]
    return T(shape, dtype, scale=scale, zero=default if zero is None else zero)


def c(value: Any, dtype: str = "int32") -> T:
    data = np.asarray(value, dtype)
    return T(data.shape, dtype, data)


def weights(dtype: str, shape: tuple[int, ...], scale: Any, zero: int = 0, axis: int = 0) -> T:
    low = {"uint8": 0}.get(dtype, -127)
    data = rng.integers(low, {"uint8": 256, "float32": 2}.get(dtype, 128), shape)
    return T(shape, dtype, data, scale=scale, zero=zero, axis=axis)


def floats(*shape: int) -> T:
    return T(shape, "float32", rng.standard_normal(shape))


Case = tuple[str, str, list[T], list[T], Any, dict[str, Any]]
QUANTIZED = ("int8", "uint8", "int16")


def case(name: str, inputs: list[T], outputs: list[T], options: Any = None, label: str = "", **keywords: Any) -> Any:
    title = "-".join([name, *[t.dtype for t in inputs[:1]], *([label] if label else [])])
    return pytest.param(name, inputs, outputs, options, keywords, id=title)


def unary() -> Iterator[Any]:
    for name in ("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "HARD_SWISH", "ABS", "NEG",
                 "CEIL", "FLOOR", "ROUND", "SIN", "COS", "EXP", "SQUARE", "SIGN", "ZEROS_LIKE"):  # fmt: skip
        yield case(name, [f(2, 3, 7)], [f(2, 3, 7)])
    for name in ("LOG", "SQRT", "RSQRT"):
        yield case(name, [f(2, 3, 7)], [f(2, 3, 7)], low=0.1, high=9.0)
    yield case("GELU", [f(2, 9)], [f(2, 9)], ("GeluOptions", {"approximate": True}), "tanh")
    yield case("GELU", [f(2, 9)], [f(2, 9)], ("GeluOptions", {"approximate": False}), "erf")
    yield case("LEAKY_RELU", [f(2, 9)], [f(2, 9)], ("LeakyReluOptions", {"alpha": 0.2}))
    for dtype in ("int8", "uint8"):
        step, zero = 1 / 256, -128 if dtype == "int8" else 0
        yield case("LOGISTIC", [q(dtype, 999)], [q(dtype, 999, scale=step, zero=zero)])
        yield case("TANH", [q(dtype, 999)], [q(dtype, 999, scale=1 / 128, zero=zero + 128)])
        yield case("HARD_SWISH", [q(dtype, 999)], [q(dtype, 999, scale=0.037)])
        yield case("RELU", [q(dtype, 999)], [q(dtype, 999, scale=0.031)])
        yield case("RELU6", [q(dtype, 999)], [q(dtype, 999, scale=0.031)])
        yield case("LEAKY_RELU", [q(dtype, 999)], [q(dtype, 999, scale=0.04)], ("LeakyReluOptions", {"alpha": 0.3}))
        yield case("GELU", [q(dtype, 999)], [q(dtype, 999, scale=0.04)], ("GeluOptions", {"approximate": False}))
    yield case("ELU", [q("int8", 999)], [q("int8", 999, scale=0.04)])
    yield case("EXP", [q("int8", 999)], [q("int8", 999, scale=1.9)])
    yield case("ABS", [q("int8", 999)], [q("int8", 999, scale=0.03)])
    yield case("NEG", [q("int8", 999)], [q("int8", 999)])
    yield case("LOG", [q("int8", 999, zero=-128)], [q("int8", 999, scale=0.03)])
    yield case("RSQRT", [q("int8", 999, zero=-128)], [q("int8", 999, scale=0.02, zero=-128)])
    yield case("SQRT", [q("int8", 999, zero=-128)], [q("int8", 999, scale=0.02, zero=-120)])
    wide = T((9999,), "int16", scale=0.0003, zero=0)
    for name, scale in (("LOG", 0.0003), ("EXP", 0.5)):
        yield case(name, [wide], [T((9999,), "int16", scale=scale, zero=0)], label="int16")
    for name, scale in (("LOGISTIC", 1 / 32768), ("TANH", 1 / 32768)):
        yield case(name, [q("int16", 999, scale=1 / 4096)], [q("int16", 999, scale=scale)], label="power")
        yield case(name, [q("int16", 999, scale=0.0007)], [q("int16", 999, scale=scale)])
    yield case("LEAKY_RELU", [q("int16", 999)], [q("int16", 999, scale=0.06)], ("LeakyReluOptions", {"alpha": 0.3}))
    yield case("PRELU", [f(1, 4, 4, 3), floats(1, 1, 3)], [f(1, 4, 4, 3)])
    yield case("PRELU", [q("int8", 1, 4, 4, 3), weights("int8", (1, 1, 3), 0.01, 3)], [q("int8", 1, 4, 4, 3)])
    slopes = weights("int8", (1, 1, 3), 0.01)  # the converter gives them 8 bits beside data of 16
    yield case("PRELU", [q("int16", 1, 4, 4, 3), slopes], [q("int16", 1, 4, 4, 3)])
    yield case("LOGICAL_NOT", [T((3, 4), "bool")], [T((3, 4), "bool")])


def binary() -> Iterator[Any]:
    kinds = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}
    for name, options in kinds.items():
        for activation in (0, 1, 2, 3):
            chosen = (options, {"fusedActivationFunction": activation})
            yield case(name, [f(2, 3, 4), f(1, 3, 1)], [f(2, 3, 4)], chosen, str(activation), low=0.3)
        if name != "DIV":
            for dtype in ("int32", "int64"):
                yield case(name, [T((2, 3), dtype), T((2, 3), dtype)], [T((2, 3), dtype)], (options, {}))
            for dtype in QUANTIZED:
                for activation in (0, 1, 3):
                    chosen = (options, {"fusedActivationFunction": activation})
                    inputs = [q(dtype, 3, 333), q(dtype, 3, 333, scale=0.07)]
                    yield case(name, inputs, [q(dtype, 3, 333, scale=0.11)], chosen, str(activation))
                yield case(
                    name, [q(dtype, 3, 5), q(dtype, 1, 5, scale=0.02)], [q(dtype, 3, 5)], (options, {}), "broadcast"
                )
    for dtype, zero in (("int8", 0), ("uint8", 100), ("int16", 0)):
        # divisors so small that the kernel never shifts by more than 31 bits, which is undefined
        divisors = T((1, 6), dtype, zero + np.array([[1, 2, 3, -1, -2, -3]]), scale=0.01, zero=zero)
        for activation in (0, 1):
            wanted, chosen = q(dtype, 99, 6, scale=1.9), (kinds["DIV"], {"fusedActivationFunction": activation})
            yield case("DIV", [q(dtype, 99, 6), divisors], [wanted], chosen, str(activation))
    pot = [q("int16", 99, scale=2.0**-11), q("int16", 99, scale=2.0**-9)]
    for name in ("ADD", "SUB"):
        yield case(name, pot, [q("int16", 99, scale=2.0**-9)], (kinds[name], {"potScaleInt16": True}), "power")
    for name in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"):
        yield case(name, [f(2, 3, 4), f(1, 3, 1)], [f(2, 3, 4)], low=0.5, high=9)
        yield case(name, [T((2, 3), "int32"), T((2, 3), "int32")], [T((2, 3), "int32")], low=1, high=9)
    yield case("POW", [f(2, 3, 4), f(1, 3, 1)], [f(2, 3, 4)], low=0.5)
    yield case("ATAN2", [f(2, 30), f(2, 30)], [f(2, 30)])
    yield case("SQUARED_DIFFERENCE", [q("int8", 3, 333), q("int8", 3, 333, scale=0.07)], [q("int8", 3, 333, scale=0.9)])
    for name in ("MAXIMUM", "MINIMUM"):
        yield case(name, [q("int8", 3, 4), q("int8", 3, 4)], [q("int8", 3, 4)])
    for name in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        yield case(name, [T((2, 9), "int32"), T((2, 9), "int32")], [T((2, 9), "bool")])
        yield case(name, [f(2, 9), f(2, 9)], [T((2, 9), "bool")])
        yield case(name, [q("int8", 2, 99), q("int8", 2, 99, scale=0.04)], [T((2, 99), "bool")])
    for name in ("LOGICAL_AND", "LOGICAL_OR"):
        yield case(name, [T((2, 9), "bool"), T((2, 9), "bool")], [T((2, 9), "bool")])
    for name in ("BITWISE_XOR", "RIGHT_SHIFT"):
        yield case(name, [T((2, 9), "int32"), T((2, 9), "int32")], [T((2, 9), "int32")], low=0, high=7)
    yield case("BITCAST", [f(2, 9)], [T((2, 9), "int32")])
    yield case("ADD_N", [f(2, 3), f(2, 3), f(2, 3)], [f(2, 3)])
    yield case("SELECT", [T((2, 3), "bool"), f(2, 3), f(2, 3)], [f(2, 3)])
    yield case("SELECT_V2", [T((2, 1), "bool"), f(2, 3), f(1, 3)], [f(2, 3)])
    yield case("BUCKETIZE", [f(2, 30)], [T((2, 30), "int32")], ("BucketizeOptions", {"boundaries": [-1.0, 0.0, 1.5]}))
    for exclusive in (False, True):
        chosen = ("CumsumOptions", {"exclusive": exclusive, "reverse": exclusive})
        yield case("CUMSUM", [f(2, 9), c(1)], [f(2, 9)], chosen, str(exclusive))
    for target in ("int32", "int64", "float32", "bool", "int8"):
        yield case("CAST", [f(2, 9)], [T((2, 9), target)], ("CastOptions", {}), target, low=-9, high=9)


def conv(
    name: str, dtype: str, kernel: tuple[int, ...], out: int, stride: int, padding: int, activation: int, label: str
) -> Any:
    """A convolution of [1, 9, 8, 4]."""
    extents = [-(-(e if padding == 0 else e - k + 1) // stride) for e, k in ((9, kernel[1]), (8, kernel[2]))]
    if dtype == "float32" or label.startswith("hybrid"):
        data, weight, bias = f(1, 9, 8, 4), floats(*kernel), floats(out)
        result = f(1, *extents, out)
        if label.startswith("hybrid"):
            scale = [0.02] * out if label.endswith("alike") else list(rng.uniform(0.005, 0.03, out))
            weight = weights("int8", kernel, scale, axis=3 if name.startswith("DEPTHWISE") else 0)
    else:
        axis = 3 if name.startswith("DEPTHWISE") else 0
        scale = 0.02 if dtype == "uint8" else list(rng.uniform(0.005, 0.03, out))
        weight = weights("uint8" if dtype == "uint8" else "int8", kernel, scale, 127 if dtype == "uint8" else 0, axis)
        data, result = q(dtype, 1, 9, 8, 4), q(dtype, 1, *extents, out, scale=0.3)
        kind = "int64" if dtype == "int16" else "int32"
        bias_scale = (np.asarray(scale) * 0.05).astype(np.float32)
        bias = T((out,), kind, rng.integers(-900, 900, out), scale=bias_scale, zero=0)
    options = {"padding": padding, "strideW": stride, "strideH": stride, "fusedActivationFunction": activation}
    if name.startswith("DEPTHWISE"):
        options["depthMultiplier"] = out // 4
    kind = "DepthwiseConv2DOptions" if name.startswith("DEPTHWISE") else "Conv2DOptions"
    return case(name, [data, weight, bias], [result], (kind, options), label)


def products() -> Iterator[Any]:
    for dtype in ("float32", *QUANTIZED):
        for stride, padding, activation in ((1, 0, 0), (2, 0, 3), (2, 1, 1)):
            label = f"{stride}{padding}{activation}"
            yield conv("CONV_2D", dtype, (6, 3, 3, 4), 6, stride, padding, activation, label)
            yield conv("DEPTHWISE_CONV_2D", dtype, (1, 3, 3, 8), 8, stride, padding, activation, label)
    for dtype in ("float32", "int8"):
        yield conv("CONV_2D", dtype, (6, 3, 3, 2), 6, 1, 0, 0, "grouped")
    for label in ("hybrid", "hybrid-alike"):
        yield conv("CONV_2D", "float32", (6, 3, 3, 4), 6, 2, 0, 1, label)
        yield conv("DEPTHWISE_CONV_2D", "float32", (1, 3, 3, 8), 8, 1, 1, 0, label)
    for activation in (0, 1):
        options = ("FullyConnectedOptions", {"fusedActivationFunction": activation})
        label = str(activation)
        yield case("FULLY_CONNECTED", [f(3, 40), floats(7, 40), floats(7)], [f(3, 7)], options, label)
        for dtype in QUANTIZED:
            zero = 127 if dtype == "uint8" else 0
            weight = weights("uint8" if dtype == "uint8" else "int8", (99, 40), 0.02, zero)
            bias = T((99,), "int64" if dtype == "int16" else "int32", rng.integers(-900, 900, 99), scale=0.001)
            yield case("FULLY_CONNECTED", [q(dtype, 9, 40), weight, bias], [q(dtype, 9, 99, scale=0.4)], options, label)
        scales = list(rng.uniform(0.01, 0.03, 99))
        bias = T(
            (99,), "int32", rng.integers(-900, 900, 99), scale=list(np.float32(0.05) * np.asarray(scales, np.float32))
        )
        inputs = [q("int8", 9, 40), weights("int8", (99, 40), scales), bias]
        yield case("FULLY_CONNECTED", inputs, [q("int8", 9, 99, scale=0.4)], options, f"per_channel{label}")
        hybrid = [f(3, 40), weights("int8", (7, 40), 0.02), floats(7)]
        yield case("FULLY_CONNECTED", hybrid, [f(3, 7)], options, f"hybrid{label}", tolerance=1e-4)
    for adjoint in (False, True):
        options = ("BatchMatMulOptions", {"adjY": adjoint})
        right = (2, 4, 5) if adjoint else (2, 5, 4)
        yield case("BATCH_MATMUL", [f(2, 3, 5), f(*right)], [f(2, 3, 4)], options, str(adjoint))
        for dtype in ("int8", "int16"):
            inputs = [q(dtype, 2, 3, 5), q(dtype, *right, scale=0.04)]
            yield case("BATCH_MATMUL", inputs, [q(dtype, 2, 3, 4, scale=0.3)], options, str(adjoint))
    for padding, size in ((0, (8, 8)), (1, (9, 9))):
        options = ("TransposeConvOptions", {"padding": padding, "strideW": 2, "strideH": 2})
        shape = (1, *size, 3)
        yield case("TRANSPOSE_CONV", [c(shape), floats(3, 3, 3, 5), f(1, 4, 4, 5)], [f(*shape)], options, str(padding))
        weight = weights("int8", (3, 3, 3, 5), [0.01, 0.02, 0.03])
        inputs = [c(shape), weight, q("int8", 1, 4, 4, 5)]
        yield case("TRANSPOSE_CONV", inputs, [q("int8", *shape, scale=0.2)], options, f"int8{padding}")
    options = ("Conv3DOptions", {"padding": 0, "strideD": 1, "strideH": 2, "strideW": 1})
    yield case("CONV_3D", [f(1, 4, 6, 5, 3), floats(3, 3, 3, 3, 4), floats(4)], [f(1, 4, 3, 5, 4)], options)


def pools() -> Iterator[Any]:
    for name in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"):
        for padding, extent in ((0, 5), (1, 4)):
            for dtype in ("float32",) if name == "L2_POOL_2D" else ("float32", *QUANTIZED):
                options = {"padding": padding, "strideW": 2, "strideH": 2, "filterWidth": 3, "filterHeight": 3}
                tensor = partial(q, dtype) if dtype != "float32" else f
                yield case(
                    name, [tensor(2, 9, 9, 3)], [tensor(2, extent, extent, 3)], ("Pool2DOptions", options), str(padding)
                )


def normalizations() -> Iterator[Any]:
    for beta in (1.0, 0.7):
        options = ("SoftmaxOptions", {"beta": beta})
        yield case("SOFTMAX", [f(3, 40)], [f(3, 40)], options, str(beta))
        yield case("SOFTMAX", [q("int8", 30, 40)], [q("int8", 30, 40, scale=1 / 256, zero=-128)], options, str(beta))
        yield case("SOFTMAX", [q("uint8", 30, 40)], [q("uint8", 30, 40, scale=1 / 256, zero=0)], options, str(beta))
        yield case(
            "SOFTMAX", [q("int16", 30, 40, scale=0.0005)], [q("int16", 30, 40, scale=1 / 32768)], options, str(beta)
        )
    yield case("LOG_SOFTMAX", [f(3, 40)], [f(3, 40)])
    for dtype, last, middle in (("int8", 127, 0), ("uint8", 255, 128)):
        for scale, depth in ((0.01, 40), (0.3, 7)):
            wanted = q(dtype, 30, depth, scale=1 / 16, zero=last)
            yield case("LOG_SOFTMAX", [q(dtype, 30, depth, scale=scale)], [wanted], ("LogSoftmaxOptions", {}))
        for depth in (1, 40, 9000):
            wanted = q(dtype, 3, depth, scale=1 / 128, zero=middle)
            yield case("L2_NORMALIZATION", [q(dtype, 3, depth)], [wanted], ("L2NormOptions", {}))
    yield case("L2_NORMALIZATION", [f(3, 40)], [f(3, 40)], ("L2NormOptions", {}))
    options = ("LocalResponseNormalizationOptions", {"radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6})
    yield case("LOCAL_RESPONSE_NORMALIZATION", [f(1, 3, 3, 9)], [f(1, 3, 3, 9)], options)


def reductions() -> Iterator[Any]:
    for name in ("SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
        for keep in (False, True):
            shape = (2, 1, 1, 5) if keep else (2, 5)
            options = ("ReducerOptions", {"keepDims": keep})
            yield case(name, [f(2, 4, 3, 5), c([1, 2])], [f(*shape)], options, str(keep))
            if name == "REDUCE_PROD":
                for dtype in ("int8", "int16"):
                    inputs, scale = [q(dtype, 2, 4, 3, 5, scale=0.3), c([1, 2])], 0.7 if dtype == "int8" else 40000.0
                    yield case(name, inputs, [q(dtype, *shape, scale=scale)], options, str(keep))
            else:
                for dtype in QUANTIZED if name != "SUM" else ("uint8",):  # of others the reference writes no sums
                    scale = 0.05 if name.startswith("REDUCE") else 0.4 if name == "SUM" else 0.03
                    result = q(dtype, *shape, scale=scale)
                    yield case(name, [q(dtype, 2, 4, 3, 5), c([1, 2])], [result], options, f"{keep}")
    for name in ("REDUCE_ANY", "REDUCE_ALL"):
        yield case(name, [T((2, 4), "bool"), c([1])], [T((2,), "bool")], ("ReducerOptions", {}))
    for name in ("ARG_MAX", "ARG_MIN"):
        for tensor in (f(3, 9), q("int8", 3, 9)):
            yield case(name, [tensor, c(1)], [T((3,), "int32")], (f"Arg{name[4:].title()}Options", {"outputType": 2}))
    yield case("SEGMENT_SUM", [f(5, 3), c([0, 0, 1, 2, 2])], [f(3, 3)])
    for name in ("SUM", "PROD", "MAX", "MIN"):
        yield case(f"UNSORTED_SEGMENT_{name}", [f(5, 3), c([2, 0, -1, 2, 0]), c(4)], [f(4, 3)])


def shapes() -> Iterator[Any]:
    for make in (f, lambda *s: q("int8", *s), lambda *s: T(s, "int32")):
        yield case("RESHAPE", [make(2, 6), c([3, -1])], [make(3, 4)], ("ReshapeOptions", {"newShape": [3, -1]}))
        yield case("TRANSPOSE", [make(2, 3, 4), c([2, 0, 1])], [make(4, 2, 3)])
        yield case("SLICE", [make(4, 5), c([1, 2]), c([2, -1])], [make(2, 3)])
        yield case("CONCATENATION", [make(2, 3), make(2, 4)], [make(2, 7)], ("ConcatenationOptions", {"axis": 1}))
        yield case("PAD", [make(2, 3), c([[1, 0], [2, 1]])], [make(3, 6)])
        yield case("MIRROR_PAD", [make(3, 4), c([[1, 1], [2, 0]])], [make(5, 6)], ("MirrorPadOptions", {"mode": 0}))
        yield case("SPLIT", [c(1), make(2, 6)], [make(2, 2)] * 3, ("SplitOptions", {"numSplits": 3}))
        yield case(
            "SPLIT_V",
            [make(2, 6), c([1, -1, 2]), c(1)],
            [make(2, 1), make(2, 3), make(2, 2)],
            ("SplitVOptions", {"numSplits": 3}),
        )
        yield case("PACK", [make(2, 3), make(2, 3)], [make(2, 2, 3)], ("PackOptions", {"valuesCount": 2, "axis": 1}))
        yield case("UNPACK", [make(2, 3)], [make(2)] * 3, ("UnpackOptions", {"num": 3, "axis": 1}))
        yield case("GATHER", [make(4, 3), c([3, 0, 2])], [make(3, 3)], ("GatherOptions", {"axis": 0}))
        yield case("REVERSE_V2", [make(4, 3), c([0])], [make(4, 3)])
        yield case("EXPAND_DIMS", [make(2, 3), c(1)], [make(2, 1, 3)])
        yield case("SQUEEZE", [make(2, 1, 3)], [make(2, 3)], ("SqueezeOptions", {"squeezeDims": [1]}))
    for masks in ({}, {"beginMask": 1, "endMask": 2}, {"shrinkAxisMask": 2}, {"newAxisMask": 1}, {"ellipsisMask": 1}):
        yield case(
            "STRIDED_SLICE",
            [f(4, 5, 3), c([1, 1]), c([3, 4]), c([1, 2])],
            [f(1)],
            ("StridedSliceOptions", masks),
            str(masks),
        )
    yield case(
        "STRIDED_SLICE", [f(4, 5), c([3, 4]), c([-9, 0]), c([-1, -2])], [f(1)], ("StridedSliceOptions", {}), "back"
    )
    yield case("PADV2", [f(2, 3), c([[1, 0], [2, 1]]), c(1.5, "float32")], [f(3, 6)])
    yield case("MIRROR_PAD", [f(3, 4), c([[1, 1], [2, 0]])], [f(5, 6)], ("MirrorPadOptions", {"mode": 1}), "symmetric")
    yield case(
        "GATHER",
        [f(2, 4, 3), c([[3, 0], [1, 1]])],
        [f(2, 2, 3)],
        ("GatherOptions", {"axis": 1, "batchDims": 1}),
        "batch",
    )
    yield case(
        "GATHER",
        [f(2, 4, 3), c([[2, 0], [1, 1]])],
        [f(2, 4, 2)],
        ("GatherOptions", {"axis": 2, "batchDims": 1}),
        "inner",
    )
    yield case("GATHER_ND", [f(4, 3), c([[3, 0], [1, 1]])], [f(2)])
    yield case("SCATTER_ND", [c([[3], [1]]), f(2, 3), c([5, 3])], [f(5, 3)])
    yield case("TILE", [f(2, 3), c([2, 1])], [f(4, 3)])
    yield case("BROADCAST_TO", [f(1, 3), c([2, 3])], [f(2, 3)])
    yield case("FILL", [c([2, 3]), f()], [f(2, 3)])
    yield case("SPACE_TO_DEPTH", [f(1, 4, 6, 2)], [f(1, 2, 3, 8)], ("SpaceToDepthOptions", {"blockSize": 2}))
    yield case("DEPTH_TO_SPACE", [f(1, 2, 3, 8)], [f(1, 4, 6, 2)], ("DepthToSpaceOptions", {"blockSize": 2}))
    yield case("SPACE_TO_BATCH_ND", [f(1, 4, 6, 2), c([2, 2]), c([[0, 0], [1, 1]])], [f(4, 2, 4, 2)])
    yield case("BATCH_TO_SPACE_ND", [f(4, 2, 4, 2), c([2, 2]), c([[0, 0], [1, 1]])], [f(1, 4, 6, 2)])
    yield case(
        "REVERSE_SEQUENCE",
        [f(2, 5, 3), c([2, 4])],
        [f(2, 5, 3)],
        ("ReverseSequenceOptions", {"seqDim": 1, "batchDim": 0}),
    )
    for align, half in ((False, False), (True, False), (False, True)):
        chosen = {"alignCorners": align, "halfPixelCenters": half}
        for size in ((7, 9), (2, 3)):
            label = f"{align}{half}{size[0]}"
            yield case(
                "RESIZE_BILINEAR", [f(1, 4, 5, 2), c(size)], [f(1, *size, 2)], ("ResizeBilinearOptions", chosen), label
            )
            for kind in QUANTIZED:
                yield case(
                    "RESIZE_BILINEAR", [q(kind, 1, 4, 5, 2), c(size)], [q(kind, 1, *size, 2)],
                    ("ResizeBilinearOptions", chosen), f"{label} {kind}",
                )  # fmt: skip
            yield case(
                "RESIZE_NEAREST_NEIGHBOR",
                [f(1, 4, 5, 2), c(size)],
                [f(1, *size, 2)],
                ("ResizeNearestNeighborOptions", chosen),
                label,
            )
    yield case(
        "ONE_HOT",
        [T((2, 3), "int32"), c(4), c(2.0, "float32"), c(-1.0, "float32")],
        [f(2, 3, 4)],
        ("OneHotOptions", {"axis": -1}),
    )
    yield case("TOPK_V2", [f(3, 9), c(4)], [f(3, 4), T((3, 4), "int32")])
    yield case("MATRIX_DIAG", [f(2, 3)], [f(2, 3, 3)])
    yield case("MATRIX_SET_DIAG", [f(2, 3, 4), f(2, 3)], [f(2, 3, 4)])
    yield case("EMBEDDING_LOOKUP", [c([2, 0, 3]), floats(4, 5)], [f(3, 5)])
    yield case("EMBEDDING_LOOKUP", [c([2, 0, 3]), weights("int8", (4, 5), 0.1)], [f(3, 5)], label="hybrid")
    yield case(
        "SPARSE_TO_DENSE",
        [c([[0, 1], [2, 2]]), c([3, 4]), f(2), c(0.5, "float32")],
        [f(3, 4)],
        ("SparseToDenseOptions", {}),
    )
    yield case("DYNAMIC_UPDATE_SLICE", [f(5, 4), f(2, 3), T((2,), "int32")], [f(5, 4)])
    yield case("DILATE", [f(3, 2), c([2, 3]), c(0.5, "float32")], [f(5, 4)], ("DilateOptions", {}))
    yield case("SHAPE", [f(3, 2)], [T((2,), "int32")], ("ShapeOptions", {"outType": 2}))
    yield case("RANK", [f(3, 2)], [T((), "int32")])
    yield case("WHERE", [T((3, 4), "bool")], [T((12, 2), "int64")])
    yield case("UNIQUE", [T((9,), "int32")], [T((9,), "int32"), T((9,), "int32")], ("UniqueOptions", {"idxOutType": 2}))


def quantizations() -> Iterator[Any]:
    for dtype in QUANTIZED:
        yield case("QUANTIZE", [f(999)], [q(dtype, 999, scale=0.013)], label=dtype)
        yield case("DEQUANTIZE", [q(dtype, 999)], [f(999)])
        yield case("QUANTIZE", [q(dtype, 999)], [q(dtype, 999, scale=0.037)], label="again")
    yield case("QUANTIZE", [q("int8", 999)], [q("uint8", 999, scale=0.05, zero=123)], label="uint8")
    yield case("FAKE_QUANT", [f(999)], [f(999)], ("FakeQuantOptions", {"min": -1.3, "max": 1.1, "numBits": 8}))


def found_by_fuzzing() -> Iterator[Any]:
    """Cases of `bench.frontends.tflite_integers` that once differed, or were refused."""
    for name in ("LOGISTIC", "TANH"):  # powers of two below 2^-12, which the kernels scale by a factor
        for exponent in (13, 15):
            wanted = q("int16", 9999, scale=1 / 32768)
            yield case(name, [q("int16", 9999, scale=2.0**-exponent)], [wanted], label=f"2^-{exponent}")
    inputs, wanted = [q("int16", 9999, scale=0.0003473666147328913)], q("int16", 9999, scale=0.0006094395066611469)
    yield case("ABS", inputs, [wanted], label="ratio")  # of scales in float32
    inputs, wanted = [q("uint8", 7, 6, 7, 7), c([12, 11])], q("uint8", 7, 12, 11, 7)
    options = {"alignCorners": False, "halfPixelCenters": False}
    yield case("RESIZE_BILINEAR", inputs, [wanted], ("ResizeBilinearOptions", options), "fused")
    scales = [0.0014, 0.03125]  # sums of which some are shifted to the left
    bias = T((2,), "int32", [90, -70], scale=[0.3 * scale for scale in scales], zero=0)
    inputs = [q("int16", 1, 5, 4, 3, scale=0.3), weights("int8", (2, 1, 1, 3), scales), bias]
    options = {"padding": 0, "strideW": 1, "strideH": 1, "quantizedBiasType": 2}
    yield case("CONV_2D", inputs, [q("int16", 1, 5, 4, 2, scale=0.0044)], ("Conv2DOptions", options), "left")


GROUPS = (unary, binary, products, pools, normalizations, reductions, shapes, quantizations, found_by_fuzzing)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "options", "keywords"), [entry for group in GROUPS for entry in group()]
)
def test_each_operator_agrees_with_litert(
    name: str, inputs: list[T], outputs: list[T], options: Any, keywords: dict[str, Any]
) -> None:
    check(single(name, inputs, outputs, options), **keywords)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_sums_of_integers_agree_with_the_usual_kernels(dtype: str) -> None:
    result = q(dtype, 99, scale=0.113)
    model = single("SUM", [q(dtype, 99, 7, scale=0.05), c([1])], [result], ("ReducerOptions", {"keepDims": False}))
    check(model, reference=False)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="LiteRT rounds these halves otherwise on other processors")
@pytest.mark.parametrize(("low", "high"), [(-128, 127), (-28, 227), (-228, 27)])
@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
def test_halves_between_the_codes_of_float_data(name: str, low: int, high: int) -> None:
    """Data whose scale is 1: every code is the number itself, and halves lie between two."""
    halves = [0.5, 1.5, -0.5, -1.5, 20.5, -20.5, 0.49999997, -0.49999997, 1e-3, 10.2, -10.7, -12.5, low, high, 0, 7]
    product, depthwise = name == "FULLY_CONNECTED", name.startswith("DEPTHWISE")
    shape = (1, 16) if product else (1, 1, 1, 16)
    eye = np.full((1, 1, 1, 16), 100) if depthwise else 100 * np.eye(16, dtype=int)
    kernel = eye if product else eye.reshape(1, 1, 1, 16) if depthwise else eye.reshape(16, 1, 1, 16)
    scales = 0.01 if product else list(np.linspace(0.01, 0.02, 16))
    weight = T(kernel.shape, "int8", kernel, scale=scales, zero=0, axis=3 if depthwise else 0)
    kinds = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}
    options: dict[str, Any] = {"strideW": 1, "strideH": 1} | ({"depthMultiplier": 1} if depthwise else {})
    chosen = ("FullyConnectedOptions", {"asymmetricQuantizeInputs": True}) if product else (kinds[name], options)
    model = single(name, [f(*shape), weight, floats(16)], [f(*shape)], chosen)
    data = np.array(halves, "f").reshape(shape)
    (wanted,) = outputs_of(opened(model), [data])
    mod, specs = from_tflite(model)
    (found,) = tw.compile(mod, cache=False).run({specs[0].name: data})
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)  # another code would be 1 away, or more
