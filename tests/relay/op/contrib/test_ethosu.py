"""The Ethos-U operators against the same arithmetic in Python integers and NumPy."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import relay
from tilewright.errors import TypeMismatchError
from tilewright.relay import op
from tilewright.relay.ir.type_of import type_of

ethosu = op.contrib.ethosu
RNG = np.random.default_rng(11)
NO_TABLE = relay.const(np.zeros(0, "int8"))
SCALES = {"ifm_scale": 0.5, "ifm_zero_point": 3, "ofm_scale": 0.25, "ofm_zero_point": -2}


def table_of(biases: list[int], factors: list[int], shifts: list[int]) -> np.ndarray:
    """Ten bytes a channel: bias, factor, shift."""
    rows = zip(biases, factors, shifts, strict=True)
    packed = [b.to_bytes(5, "little", signed=True) + f.to_bytes(4, "little") + bytes([s]) for b, f, s in rows]
    return np.frombuffer(b"".join(packed), "uint8").reshape(len(biases), 10)


def rounded(value: Fraction, mode: str) -> int:
    if mode == "TRUNCATE":
        return int(value)
    if mode == "NATURAL":
        return (value + Fraction(1, 2)).__floor__()
    return (1 if value > 0 else -1) * (abs(value) + Fraction(1, 2)).__floor__()


def scaled(total: int, factor: int, shift: int, mode: str) -> int:
    if mode != "TFL":
        return rounded(Fraction(total * factor, 1 << shift), mode)
    high = rounded(Fraction((total << max(31 - shift, 0)) * factor, 1 << 31), mode)
    return rounded(Fraction(high, 1 << max(shift - 31, 0)), mode)


def convolved(x: np.ndarray, w: np.ndarray, strides: tuple, padding: tuple, dilation: tuple, depthwise: bool):
    """Sums of (N, H, W, C) with (O, H, W, I), by loops over the kernel."""
    top, left, bottom, right = padding
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    kh, kw = w.shape[1:3]
    h = (x.shape[1] - (kh - 1) * dilation[0] - 1) // strides[0] + 1
    v = (x.shape[2] - (kw - 1) * dilation[1] - 1) // strides[1] + 1
    total = np.zeros((x.shape[0], h, v, w.shape[0]), "int64")
    for a in range(kh):
        for b in range(kw):
            rows = slice(a * dilation[0], a * dilation[0] + (h - 1) * strides[0] + 1, strides[0])
            columns = slice(b * dilation[1], b * dilation[1] + (v - 1) * strides[1] + 1, strides[1])
            part = x[:, rows, columns]
            total += part * w[:, a, b, 0] if depthwise else part @ w[:, a, b].T
    return total


def run(call: relay.Call) -> np.ndarray:
    """By the reference; the compiled kernels must give the same."""
    (expected,) = relay.interpret(call, [])
    (found,) = tilewright.compile(relay.IRModule.from_expr(call)).run({})
    np.testing.assert_array_equal(found, expected)
    return expected


@pytest.mark.parametrize("mode", ["TFL", "TRUNCATE", "NATURAL"])
@pytest.mark.parametrize("depthwise", [False, True])
def test_convolutions_equal_integer_arithmetic(mode: str, depthwise: bool) -> None:
    x = RNG.integers(-128, 128, (1, 7, 9, 5)).astype("int8")
    w = RNG.integers(-128, 128, (5, 3, 2, 1) if depthwise else (6, 3, 2, 5)).astype("int8")
    count = w.shape[0]
    biases = [int(v) for v in RNG.integers(-(1 << 20), 1 << 20, count)]
    biases[0] = -(1 << 29) + 5
    factors = [int(v) for v in RNG.integers(1 << 30, 1 << 31, count)]
    shifts = [int(v) for v in RNG.integers(38, 44, count)]
    window = {"strides": (2, 1), "padding": (1, 0, 0, 2), "dilation": (1, 2)}
    build = ethosu.depthwise_conv2d if depthwise else ethosu.conv2d
    call = build(
        relay.const(x), relay.const(w), relay.const(table_of(biases, factors, shifts)), NO_TABLE,
        **SCALES, weight_zero_point=1, kernel_shape=(3, 2), ofm_channels=count, rounding_mode=mode, **window,
    )  # fmt: skip
    total = convolved(x.astype("int64") - 3, w.astype("int64") - 1, **window, depthwise=depthwise)
    expected = np.empty_like(total)
    for index in np.ndindex(total.shape):
        c = index[-1]
        expected[index] = scaled(int(total[index]) + biases[c], factors[c], shifts[c], mode) - 2
    np.testing.assert_array_equal(run(call), np.clip(expected, -128, 127).astype("int8"))


@pytest.mark.parametrize("upscale", ["NEAREST", "ZEROS"])
def test_upscaling_blocks_and_tables(upscale: str) -> None:
    """One convolution that passes its input through shows what is done before and after it."""
    x = RNG.integers(0, 256, (1, 3, 4, 5)).astype("uint8")
    blocked = np.pad(x, ((0, 0), (0, 0), (0, 0), (0, 11)))[:, :, None].transpose(0, 1, 2, 3, 4)
    kernel = np.eye(5, dtype="uint8").reshape(5, 1, 1, 5)
    lut = RNG.integers(0, 256, 256).astype("uint8")
    call = ethosu.conv2d(
        relay.const(blocked), relay.const(kernel), relay.const(table_of([0] * 5, [1 << 30] * 5, [30] * 5)),
        relay.const(lut), 1.0, 7, 0, 1.0, 7, (1, 1), 5, activation="LUT", upscale=upscale, ifm_layout="NHCWB16",
        ofm_layout="NHCWB16",
    )  # fmt: skip
    large = np.full((1, 6, 8, 5), 7, "uint8")
    large[:, ::2, ::2] = x
    if upscale == "NEAREST":
        large = x.repeat(2, 1).repeat(2, 2)
    found = run(call)
    assert found.shape == (1, 6, 1, 8, 16)
    np.testing.assert_array_equal(found[:, :, 0, :, :5], lut[large])
    assert not found[..., 5:].any()


@pytest.mark.parametrize("mode", ["TFL", "TRUNCATE", "NATURAL"])
@pytest.mark.parametrize("kind", ["AVG", "MAX", "SUM"])
def test_pooling_equals_integer_arithmetic(kind: str, mode: str) -> None:
    x = RNG.integers(-128, 128, (1, 7, 6, 3)).astype("int8")
    call = ethosu.pooling(
        relay.const(x), NO_TABLE, kind, **SCALES, pool_shape=(2, 3), ofm_channels=3, ofm_dtype="int32",
        strides=(2, 1), padding=(0, 1, 1, 1), activation="CLIP", clip_min=-150, clip_max=400, rounding_mode=mode,
    )  # fmt: skip
    centred = np.pad(x.astype(object) - 3, ((0, 0), (0, 1), (1, 1), (0, 0)), constant_values=None)
    expected = np.empty((1, 4, 6, 3), "int64")
    for _, h, w, c in np.ndindex(expected.shape):
        inside = [v for v in centred[0, 2 * h : 2 * h + 2, w : w + 3, c].flat if v is not None]
        value = {"AVG": Fraction(sum(inside), len(inside)), "MAX": max(inside), "SUM": sum(inside)}[kind]
        expected[0, h, w, c] = min(max(rounded(Fraction(value) * 2, mode) - 2, -150), 400)
    np.testing.assert_array_equal(run(call), expected.astype("int32"))


BINARY = {
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "MIN": min,
    "MAX": max,
}


def binary(x: np.ndarray, y: np.ndarray, kind: str, dtype: str, swap: bool = False, **more: Any) -> relay.Call:
    attrs = {
        "ifm_scale": 0.5, "ifm_zero_point": 3, "ifm2_scale": 0.75, "ifm2_zero_point": -1,
        "ofm_scale": 0.25, "ofm_zero_point": 2, "ifm_channels": 5, "ifm2_channels": 5,
        "reversed_operands": swap, "ofm_dtype": dtype,
    } | more  # fmt: skip
    return ethosu.binary_elementwise(relay.const(x), relay.const(y), NO_TABLE, kind, **attrs)


@pytest.mark.parametrize("kind", list(BINARY))
@pytest.mark.parametrize("swap", [False, True])
def test_binary_operators_equal_integer_arithmetic(kind: str, swap: bool) -> None:
    x = RNG.integers(-128, 128, (1, 3, 4, 5)).astype("int8")
    y = RNG.integers(-128, 128, (1, 1, 4, 5)).astype("int8")
    found = run(binary(x, y, kind, "int8", swap))
    for index in np.ndindex(x.shape):
        a = (int(x[index]) - 3) * Fraction(1, 2)
        b = (int(y[0, 0, index[2], index[3]]) + 1) * Fraction(3, 4)
        value = rounded((BINARY[kind](b, a) if swap else BINARY[kind](a, b)) * 4, "TFL") + 2
        assert found[index] == min(max(value, -128), 127)


def test_shifts_round_to_nearest() -> None:
    x, y = RNG.integers(-5000, 5000, (1, 2, 3, 5)).astype("int32"), RNG.integers(0, 9, (1, 2, 3, 5)).astype("int32")
    zeros = {"ifm_zero_point": 0, "ifm2_zero_point": 0, "ofm_zero_point": 0}
    np.testing.assert_array_equal(run(binary(x, y, "SHL", "int32", **zeros)), x << y)
    found = run(binary(x, y, "SHR", "int32", rounding_mode="NATURAL", **zeros))
    np.testing.assert_array_equal(found, np.floor(x / 2.0**y + 0.5).astype("int32"))


def test_wrong_attributes_are_refused() -> None:
    x = np.zeros((1, 2, 2, 5), "int8")
    with pytest.raises(TypeMismatchError, match="activation 'TANH'; known: NONE, CLIP, LUT"):
        type_of(binary(x, x, "ADD", "int8", activation="TANH"))
    with pytest.raises(TypeMismatchError, match=r"SHL takes two of \('int32',\)"):
        type_of(binary(x, x, "SHL", "int32"))
    with pytest.raises(TypeMismatchError, match="MIN of int8 is int8, not uint8"):
        type_of(binary(x, x, "MIN", "uint8"))
    with pytest.raises(TypeMismatchError, match=r"scale_bias is Tensor\[\(4, 10\), uint8\], not Tensor\[\(3, 10\)"):
        table = relay.const(table_of([0] * 3, [1] * 3, [0] * 3))
        kernel = relay.const(np.zeros((4, 1, 1, 5), "int8"))
        type_of(ethosu.conv2d(relay.const(x), kernel, table, NO_TABLE, 1.0, 0, 0, 1.0, 0, (1, 1), 4))
    with pytest.raises(TypeMismatchError, match="5 channels make 4"):
        type_of(ethosu.pooling(relay.const(x), NO_TABLE, "MAX", **SCALES, pool_shape=(1, 1), ofm_channels=4))
