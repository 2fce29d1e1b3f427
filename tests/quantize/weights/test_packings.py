"""GPTQ's, AWQ's and HQQ's arrays, packed here by the formats' definitions, against what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx.conftest import build_model, reference_outputs
from tests.relay.helpers import module
from tilewright import relay
from tilewright.driver.model.build import build_model as compile_module
from tilewright.errors import ShapeError, UnsupportedError
from tilewright.quantize.weights import CodedWeights, from_awq, from_channels, from_gptq, from_hqq
from tilewright.target import Target

RNG = np.random.default_rng(53)
UNITS, DEPTH = 32, 96


def _words(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes along the last axis in int32 words: one long number, lowest bits first."""
    rows = []
    for row in codes.reshape(-1, codes.shape[-1]):
        number = sum(int(code) << bits * i for i, code in enumerate(row))
        rows.append([number >> 32 * i & 0xFFFFFFFF for i in range(codes.shape[-1] * bits // 32)])
    return np.array(rows, np.uint32).view(np.int32).reshape(*codes.shape[:-1], -1)


def _numbers(bits: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    codes = RNG.integers(0, 1 << bits, (UNITS, DEPTH))
    return codes, (RNG.random((UNITS, groups)) + 0.5).astype(np.float16), RNG.integers(1, 1 << bits, (UNITS, groups))


def _meant(codes: np.ndarray, scales: np.ndarray, zeros: np.ndarray, group: np.ndarray) -> np.ndarray:
    return (codes - zeros[:, group]) * scales.astype(np.float64)[:, group]


def _check(weights: CodedWeights, meant: np.ndarray, bits: int) -> None:
    """The weights and a product with them are right, and take no more than their bits."""
    np.testing.assert_array_equal(weights.numpy(), meant)
    assert weights.packed.nbytes == meant.size * bits // 8
    data, bias = RNG.standard_normal((2, DEPTH)).astype(np.float32), RNG.random(UNITS).astype(np.float32)
    got = compile_module(module(weights.dense(relay.var("x", shape=data.shape), bias)), Target("cpu"), threads=1)(data)
    exact = data.astype(np.float64) @ meant.T + bias
    assert np.abs(got - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("version", [1, 2])
def test_gptq(bits: int, version: int) -> None:
    codes, scales, zeros = _numbers(bits, 3)
    stored = _words(zeros.T - (2 - version), bits)
    weights = from_gptq(_words(codes, bits).T, scales.T, stored, None, bits, version)
    _check(weights, _meant(codes, scales, zeros, np.arange(DEPTH) // 32), bits)
    assert weights.scales.dtype == np.float16


@pytest.mark.parametrize("bits", [3, 4])
def test_gptq_in_act_order(bits: int) -> None:
    codes, scales, zeros = _numbers(bits, 3)
    order = RNG.permutation(np.repeat(np.int32([0, 1, 2]), 32))
    weights = from_gptq(_words(codes, bits).T, scales.T, _words(zeros.T - 1, bits), order, bits)
    _check(weights, _meant(codes, scales, zeros, order), bits)


def test_symmetric_weights_need_no_zero_points() -> None:
    codes, scales, zeros = _numbers(4, 1)
    weights = from_gptq(_words(codes, 4).T, scales.T, _words(np.full_like(zeros, 7).T, 4))
    assert weights.zeros is None
    _check(weights, _meant(codes, scales, np.full_like(zeros, 8), np.zeros(DEPTH, int)), 4)


def test_awq() -> None:
    codes, scales, zeros = _numbers(4, 3)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    interleaved = [x.T.reshape(len(x.T), -1, 8)[..., order].reshape(len(x.T), -1) for x in (codes, zeros)]
    weights = from_awq(_words(interleaved[0], 4), scales.T, _words(interleaved[1], 4))
    _check(weights, _meant(codes, scales, zeros, np.arange(DEPTH) // 32), 4)


def _hqq(codes: np.ndarray, bits: int, group: int) -> np.ndarray:
    """HQQ's packing: `count` parts of the groups, one above the other, the first in the highest bits."""
    rows = codes.reshape(-1, group)
    count = 10 if bits == 3 else 8 // bits
    rows = np.pad(rows, ((0, -len(rows) % count), (0, 0)))
    parts = np.split(rows, count)
    whole = sum(part << bits * (count - 1 - i) for i, part in enumerate(parts))
    return np.asarray(whole).astype(np.int32 if bits == 3 else np.uint8)


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 8])
def test_hqq(bits: int) -> None:
    codes, scales, _ = _numbers(bits, 3)
    zeros = (RNG.random(scales.shape) * (1 << bits)).astype(np.float16)
    flat = [x.reshape(-1, 1) for x in (scales, zeros)]
    weights = from_hqq(_hqq(codes, bits, 32), *flat, (UNITS, DEPTH), bits, 32)
    _check(weights, _meant(codes, scales, zeros.astype(np.float64), np.arange(DEPTH) // 32), bits)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_scale_a_channel(dtype: str) -> None:
    low = -128 if dtype == "int8" else 0
    codes = RNG.integers(low, low + 256, (UNITS, 300)).astype(dtype)
    scales, zeros = RNG.random(UNITS).astype(np.float32), RNG.integers(low, low + 256, UNITS)
    for given, meant in ((None, 0), (zeros, zeros[:, None])):
        weights = from_channels(codes, scales, given)
        exact = (codes.astype(np.float64) - meant) * scales.astype(np.float64)[:, None]
        np.testing.assert_array_equal(weights.numpy(), exact)
        assert weights.packed.shape == (UNITS, 2, 256) and (weights.zeros is None) == (given is None and low < 0)


def test_long_groups_are_several_blocks() -> None:
    codes = RNG.integers(0, 16, (UNITS, 1024))
    scales, zeros = RNG.random((UNITS, 2)).astype(np.float16), RNG.integers(1, 17, (UNITS, 2))
    weights = from_gptq(_words(codes, 4).T, scales.T, _words(zeros.T - 1, 4))
    assert weights.packed.shape == (UNITS, 4, 128)
    np.testing.assert_array_equal(weights.numpy(), _meant(codes, scales, zeros, np.arange(1024) // 512))


def test_a_layer_of_gptq_is_a_matmulnbits_of_onnxruntime() -> None:
    codes, scales, zeros = _numbers(4, 3)
    weights = from_gptq(_words(codes, 4).T, scales.T, _words(zeros.T - 1, 4))
    data = RNG.standard_normal((5, DEPTH)).astype(np.float32)
    attrs = {"N": UNITS, "K": DEPTH, "bits": 4, "block_size": 32}
    node = helper.make_node("MatMulNBits", ["x", "w", "s", "z"], ["y"], domain="com.microsoft", **attrs)
    padded = np.pad(zeros, ((0, 0), (0, 1)))
    stored = {
        "w": weights.packed,
        "s": scales.astype(np.float32).reshape(-1),
        "z": (padded[:, ::2] | padded[:, 1::2] << 4).astype(np.uint8).reshape(-1),
    }
    model = build_model([node], {"x": data}, ["y"], 17, stored, {"com.microsoft": 1})
    ours = compile_module(module(weights.dense(relay.var("x", shape=data.shape))), Target("cpu"), threads=1)(data)
    np.testing.assert_allclose(ours, reference_outputs(model, {"x": data})[0], rtol=1e-5, atol=1e-4)


def test_rows_are_picked_from_a_table() -> None:
    codes, scales, zeros = _numbers(3, 3)
    weights = from_gptq(_words(codes, 3).T, scales.T.astype(np.float32), _words(zeros.T - 1, 3), None, 3)
    model = compile_module(module(weights.take(relay.var("i", shape=(2, 3), dtype="int64"))), Target("cpu"), threads=1)
    indices = np.array([[1, 31, 0], [7, 7, 20]])
    np.testing.assert_allclose(model(indices), weights.numpy()[indices], rtol=1e-6)


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "version": (lambda c, s: from_gptq(c, s, version=3), UnsupportedError, "version=3 of GPTQ's format"),
    "columns": (lambda c, s: from_gptq(c, s[:, 1:]), ShapeError, r"GPTQ's scales are \[groups, 32\], not \[3, 31\]"),
    "order": (lambda c, s: from_gptq(c, s, None, np.full(DEPTH, 3)), ShapeError, "96 numbers below 3"),
    "axis": (lambda c, s: from_hqq(c, s, s, (UNITS, DEPTH), 4, 32, 0), UnsupportedError, "quantize with axis=1"),
    "bits": (lambda c, s: from_hqq(c, s, s, (UNITS, DEPTH), 5, 32), UnsupportedError, "weights of 5 bits"),
    "short": (lambda c, s: from_hqq(c[:1], s, s, (UNITS, DEPTH), 4, 32), ShapeError, "holds no 32 by 96 weights"),
    "floats": (lambda c, s: from_channels(s, s), UnsupportedError, "int8 or uint8, not float16"),
    "groups": (lambda c, s: from_awq(c[:9], s[:, :1].repeat(256, 1)), UnsupportedError, "groups of"),
}


@pytest.mark.parametrize("name", BAD)
def test_arrays_that_do_not_fit_are_refused(name: str) -> None:
    call, kind, message = BAD[name]
    codes, scales, _ = _numbers(4, 3)
    with pytest.raises(kind, match=message):
        call(_words(codes, 4).T, scales.T)


def test_data_of_another_depth_is_refused() -> None:
    weights = from_channels(np.zeros((16, 64), np.int8), np.ones(16, np.float32))
    with pytest.raises(ShapeError, match=r"a product with weights \[16, 64\] takes data \[..., 64\], not 65"):
        weights.dense(relay.var("x", shape=(1, 65)))
