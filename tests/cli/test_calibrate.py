"""Calibration: its kernels compute what they say, and its figures follow from times."""

from __future__ import annotations

import dataclasses
import mmap
from typing import Any

import numpy as np
import pytest

from tilewright.cli import calibrate, peak
from tilewright.cli import peak_kernels as kernels
from tilewright.machine import Machine
from tilewright.runtime.module import Module
from tilewright.target import Target

SIZES = {"L2": 1 << 14, "L3": 1 << 16, "DRAM": 1 << 18}


@pytest.fixture(scope="module")
def known() -> Machine:
    return Target.host().machine


@pytest.fixture(scope="module")
def module(known: Machine) -> Module:
    return calibrate._Meter(known, 0.0).modules[1]


def test_the_chain_is_done(module: Module) -> None:
    out, total = np.zeros(kernels.lanes(), np.float32), np.zeros(1, np.int32)
    module["clock"](out, total, 3, 7, 0.5)
    expected = 7
    for _ in range(3 * kernels.STEPS):
        expected = (expected + 7) ^ 3
    assert total[0] == expected


def test_streams_read_every_vector(module: Module) -> None:
    steps, lanes = 3, kernels.lanes()
    data = np.random.default_rng(0).standard_normal((steps + 4) * kernels.stride()).astype(np.float32)
    vectors = data.view(np.int32).reshape(-1, lanes)
    count = steps * kernels.stride() // lanes
    start = np.arange(kernels.stride(), dtype=np.int32).reshape(-1, lanes)

    def total(terms: np.ndarray) -> np.ndarray:
        """The sums of eight accumulators over so many vectors, and the sum of all."""
        each = np.bitwise_xor.reduce(terms.reshape(steps, -1, lanes), axis=0)
        return (each ^ start).sum(axis=0, dtype=np.int32)

    def run(name: str) -> np.ndarray:
        out = np.zeros(lanes, np.int32)
        module[name](data, out, steps, 1)
        return out

    ahead = kernels.stride() // lanes
    np.testing.assert_array_equal(run("vector_loads"), total(vectors[:count] ^ vectors[ahead : ahead + count]))
    firsts = np.repeat(vectors[:count, :1], lanes, axis=1)
    np.testing.assert_array_equal(run("broadcast_loads"), total(firsts))
    positions = np.arange(count)[:, None] * lanes + 3 * np.arange(lanes)
    np.testing.assert_array_equal(run("gather"), total(data.view(np.int32)[positions]))
    np.testing.assert_array_equal(run("division"), total((1 / data).view(np.int32).reshape(-1, lanes)[:count]))


def test_shuffling_interleaves_two_halves(module: Module) -> None:
    lanes = kernels.lanes()
    if lanes <= 2:
        pytest.skip("no vectors to shuffle")
    vectors = np.arange(kernels.stride(), dtype=np.float32)
    before = vectors.reshape(-1, lanes).copy()
    module["shuffle"](vectors, 1)
    half = len(before) // 2
    np.testing.assert_array_equal(vectors.reshape(half, -1), [np.ravel(p, "F") for p in zip(before, before[half:])])


def test_stores_fill_the_whole_block(module: Module) -> None:
    data = np.zeros(2 * kernels.stride(), np.float32)
    module["store"](data, 2.5, 2, 1)
    assert (data == 2.5).all()


@pytest.fixture
def timer(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Every call of a kernel takes a nanosecond a round or byte, or what is given here for its name."""
    seconds: dict[str, float] = {}

    def fake(module: Module, name: str, args: tuple[Any, ...], budget: float) -> float:
        assert name in module.functions
        return seconds.get(name, 1e-3)

    monkeypatch.setattr(calibrate, "fastest", fake)
    monkeypatch.setattr(peak, "fastest", fake)
    return seconds


def test_figures_follow_from_times(timer: dict[str, float], known: Machine) -> None:
    cycle = 1 / 3e9
    steps = kernels.STEPS * calibrate._ROUNDS
    timer["clock"] = 2 * steps * cycle
    timer["chain"] = 4.1 * steps * cycle
    timer["full"] = kernels.ACCUMULATORS * steps * cycle / 1.9
    timer["half"] = kernels.ACCUMULATORS * steps * cycle / 1.1
    timer["barriers"] = 456 * calibrate._BARRIERS * cycle
    timer["read_all"] = (64 << 20) * cycle / 12
    found = calibrate.measure(known, 0.0, SIZES)
    assert found.ghz == 3.0
    assert (found.fma_latency, found.fma_per_cycle, found.barrier) == (4, 2, 456)
    if kernels.lanes() > 2:
        assert found.half_fma_per_cycle == 1
    for level in ("read_l2", "read_l3", "read_memory"):
        assert getattr(found, level).one == pytest.approx(12, rel=0.01)
    assert found.huge_page_gain == 1
    assert (found.l1, found.line, found.kernel_start) == (known.l1, known.line, known.kernel_start)
    assert found.page == mmap.PAGESIZE


def test_a_real_measurement_is_possible(known: Machine) -> None:
    found = calibrate.measure(known, 0.002, SIZES)
    assert 0.05 < found.ghz < 10
    assert found.read_l2.one <= found.read_l2.all
    assert {row.figure.split(",")[0] for row in calibrate.compare(known, found)} >= set(calibrate.MEASURED)


def test_what_differs_is_told(known: Machine) -> None:
    changed = dataclasses.replace(known, barrier=known.barrier * 1.2, gather=known.gather * 1.1)
    assert [row.figure for row in calibrate.compare(known, changed) if row.differs] == ["barrier"]
    assert not any(row.differs for row in calibrate.compare(known, known))


def test_no_dot_products_where_the_processor_has_none(timer: dict[str, float], known: Machine) -> None:
    without = dataclasses.replace(known, dot_per_cycle=0.0)
    assert calibrate.measure(without, 0.0, SIZES).dot_per_cycle == 0


def test_the_share_of_a_large_cache_is_what_is_read_fast(monkeypatch: pytest.MonkeyPatch, known: Machine) -> None:
    whole = dataclasses.replace(known, l3=dataclasses.replace(known.l3, size=1 << 22))
    meter = calibrate._Meter(whole, 0.0)
    memory = np.zeros(1 << 22, np.float32)
    monkeypatch.setattr(meter, "read", lambda data, workers: 9.0 if data.nbytes <= 1 << 20 else 2.0)
    assert calibrate._l3_share(meter, memory, 1 << 18, 4.0) == 1 << 20
    monkeypatch.setattr(meter, "read", lambda data, workers: 9.0)
    assert calibrate._l3_share(meter, memory, 1 << 18, 4.0) == 1 << 22
