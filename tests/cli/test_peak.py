"""The kernels that measure the machine compute what they say, and the figures add up."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.cli import narrow_peak, peak, peak_kernels
from tilewright.target import Target


def test_the_multiply_adds_are_all_done() -> None:
    lanes = Target.host().vector_bits // 32
    out = np.zeros(lanes, np.float32)
    peak._module(1)["fma_peak"](out, 3, 0.5)
    steps = 3 * peak_kernels.STEPS
    expected = sum(a * 0.5**steps + sum(0.5 ** (i + 1) for i in range(steps)) for a in range(peak_kernels.ACCUMULATORS))
    np.testing.assert_allclose(out, expected, rtol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_tile_is_a_product(threads: int) -> None:
    """Whole numbers, so that the sums of all rows and columns are exact in any order."""
    rows, vectors, depth = peak_kernels.tile_shape()
    lanes = peak_kernels.lanes()
    generator = np.random.default_rng(0)
    data = generator.integers(-2, 3, (depth, rows)).astype(np.float32)
    panel = generator.integers(-2, 3, (depth, vectors * lanes)).astype(np.float32)
    out = np.zeros(threads * lanes, np.float32)
    peak._module(threads)["tile_peak"](data.ravel(), panel.ravel(), out, 3)
    expected = 3 * (data.T @ panel).reshape(rows, vectors, lanes).sum(axis=(0, 1))
    np.testing.assert_array_equal(out.reshape(threads, lanes), np.broadcast_to(expected, (threads, lanes)))


def test_the_dot_products_are_all_done() -> None:
    out = np.zeros(Target.host().vector_bits // 32, np.int32)
    peak._module(1)["dot_peak"](out, 3, 0x01FF0203)  # 1, 255 and -1, 2, 3
    each = 1 * 1 + 255 * -1 + 2 * 2 + 3 * 3
    steps = 3 * peak_kernels.STEPS
    np.testing.assert_array_equal(out, sum(a + each * steps for a in range(peak_kernels.ACCUMULATORS)))


@pytest.mark.parametrize("kind", ["int8", "bfloat16"])
def test_the_products_of_matrix_registers_are_all_done(kind: str) -> None:
    if not Target.host().supports("amx-int8" if kind == "int8" else "amx-bf16"):
        pytest.skip("this processor has no AMX")
    rng = np.random.default_rng(0)
    size, wide = (4, np.int32) if kind == "int8" else (2, np.float32)
    numbers = rng.integers(-3, 4, (16, 16 * size))
    data = numbers.astype(np.int8 if kind == "int8" else ml_dtypes.bfloat16)
    left = data.view(np.uint8).astype(np.int64) if kind == "int8" else numbers
    right = numbers.reshape(16, 16, size).transpose(0, 2, 1).reshape(16 * size, 16)
    out = np.zeros(2 * 4 * 256, wide)
    narrow_peak._module(kind, 2)["tile_products"](out, data.view(np.uint8).reshape(-1), 3)
    np.testing.assert_array_equal(out.reshape(8, 16, 16), np.broadcast_to(3 * (left @ right), (8, 16, 16)))


def test_the_products_of_pairs_are_all_done() -> None:
    out = np.zeros(peak_kernels.lanes(), np.float32)
    word = np.array([1.5, -2.0], ml_dtypes.bfloat16).view(np.int32)[0]
    narrow_peak._module("pair", 1)["pair_peak"](out, 3, int(word))
    steps = 3 * peak_kernels.STEPS
    np.testing.assert_array_equal(out, sum(a + 6.25 * steps for a in range(peak_kernels.ACCUMULATORS)))


@pytest.mark.parametrize("threads", [1, 2])
def test_reading_and_copying_reach_every_element(threads: int) -> None:
    steps = 5
    source = np.arange(steps * peak_kernels.stride(), dtype=np.float32)
    copied = np.zeros_like(source)
    module = peak._module(threads)
    module["copy_all"](source, copied, steps, 1)
    np.testing.assert_array_equal(copied, source)
    out = np.zeros(threads * peak_kernels.lanes(), np.float32)
    module["read_all"](source, out, steps, 2)
    assert out.sum() == pytest.approx(2 * source.sum(), rel=1e-5)


def test_the_figures_are_possible() -> None:
    assert 0.5 < peak.fma_peak(1, 0.01) < 2000
    assert 0.5 < peak.tile_peak(1, 0.01) < 2000
    assert 0.5 < peak.dot_peak(1, 0.01) < 8000
    assert 0.1 < peak.read_bandwidth(1 << 18, 1, 0.01) < 5000
    assert 0.1 < peak.copy_bandwidth(1 << 18, 1, 0.01) < 5000


def test_the_levels_of_memory_grow() -> None:
    sizes = list(peak.memory_sizes().values())
    assert sizes == sorted(sizes)
