"""Convolutions as streams: right for every tiling, faster with two threads, refused where a tile does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.errors import UserError
from tilewright.vta import Config, Isa, Simulator
from tilewright.vta.dram import Dram
from tilewright.vta.explore.bounds import best_tilings, estimates, layer_bound
from tilewright.vta.explore.convs import Conv, Tiling, blocked, blocked_weights, conv_stream, reference
from tilewright.vta.explore.tune import cycles_of, tune_layer
from tilewright.vta.hardware import Hardware

SMALL = Conv(9, 7, 24, 40, 3, 2, 1)


def run(isa: Isa, conv: Conv, tiling: Tiling, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """What the checked simulator stores, in an order of the seed, and what NumPy says."""
    chance, block = np.random.default_rng(seed), isa.config.block
    inputs = chance.integers(-128, 128, (conv.channels, conv.height, conv.width), np.int8)
    weights = chance.integers(-128, 128, (conv.filters, conv.channels, conv.kernel, conv.kernel), np.int8)
    bias = chance.integers(-5000, 5000, -(-conv.filters // block) * block, np.int32)
    dram = Dram(isa, 1 << 20)
    stream = conv_stream(isa, dram, conv, tiling, shift=9)
    for memory, first, values in (
        ("INP", stream.inp, blocked(inputs, block)),
        ("WGT", stream.wgt, blocked_weights(weights, block)),
        ("ACC", stream.bias, bias.reshape(-1, 1, block)),
    ):
        dram.view(memory, first, len(values))[...] = values
    Simulator(isa, dram).run(stream.program, seed)
    expected = blocked(reference(conv, inputs, weights, bias[: conv.filters], shift=9), block)
    found = dram.read("OUT", stream.out, len(expected))
    used = np.arange(len(expected) * block).reshape(expected.shape) // (conv.out_height * conv.out_width * block)
    channel = used * block + np.arange(block)
    return np.where(channel < conv.filters, found, 0), np.where(channel < conv.filters, expected, 0)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize(
    "tiling",
    [Tiling(2, 2, 1), Tiling(5, 3, 2, parts=3), Tiling(3, 1, 1, early=True), Tiling(4, 2, 1, threads=1, parts=1)],
)
def test_every_tiling_computes_the_convolution(version: int, tiling: Tiling) -> None:
    isa = Isa(Config(isa_version=version))
    for conv in (SMALL, Conv(6, 6, 32, 48, 1, 1, 0)):
        for seed in range(2):
            found, expected = run(isa, conv, tiling, seed)
            np.testing.assert_array_equal(found, expected)


def test_two_threads_hide_what_one_waits_for() -> None:
    isa, conv = Isa(), Conv(14, 14, 64, 64, 3, 1, 1)
    one, two = (cycles_of(isa, Hardware(), conv, Tiling(7, 2, 1, threads)) for threads in (1, 2))
    assert conv.gemm_steps(isa) / two > 0.8
    assert one > 1.3 * two


def test_bounds_are_below_what_is_simulated() -> None:
    isa, hardware = Isa(), Hardware()
    for conv in (Conv(14, 14, 64, 64, 3, 1, 1), Conv(28, 28, 64, 32, 1, 1, 0), Conv(1, 1, 256, 64, 1, 1, 0)):
        tuned = tune_layer(isa, hardware, conv, 3)
        assert max(layer_bound(conv, isa.config, hardware), conv.gemm_steps(isa)) <= tuned.cycles
        bound, estimate = estimates(conv, isa.config, hardware)
        assert (bound <= estimate).all()
        assert best_tilings(conv, isa.config, hardware, 3)


def test_tiles_that_do_not_fit() -> None:
    with pytest.raises(UserError, match="elements of INP, and a thread has 1024"):
        conv_stream(Isa(), Dram(Isa(), 1 << 20), Conv(112, 112, 16, 16, 3, 1, 1), Tiling(112, 1, 1))
    with pytest.raises(UserError, match="tiles of one row"):
        isa = Isa(Config(log_batch=1))
        conv_stream(isa, Dram(isa, 1 << 20), SMALL, Tiling(1, 1, 1))
    small = Isa(Config(log_wgt_buff_size=8))
    with pytest.raises(UserError, match="no tile of Conv"):
        tune_layer(small, Hardware(), SMALL, 3)
