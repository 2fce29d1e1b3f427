"""Tiles of a convolution: estimates beside the cycle simulator, what hides what, what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tilewright.errors import UnsupportedError
from tilewright.vta import Config
from tilewright.vta.hardware import Hardware
from tilewright.vta.schedule.choice import estimates, layer_bound, ranked, tilings_of, tune
from tilewright.vta.schedule.geometry import Conv2D
from tilewright.vta.schedule.predict import usage_of, usual_room

CONFIG, HARDWARE = Config(), Hardware()
SQUARE = Conv2D(1, 4, 4, 14, 14, (3, 3), padding=(1, 1, 1, 1))
PRODUCT = Conv2D(1, 4, 4, 28, 28)
LAYERS = [SQUARE, PRODUCT, Conv2D(1, 8, 16, 28, 28, strides=(2, 2)), Conv2D(1, 16, 4, 1, 1)]


@pytest.mark.parametrize("conv", LAYERS)
def test_estimates_are_near_what_is_simulated(conv: Conv2D) -> None:
    room = usual_room(CONFIG, conv)
    found = estimates(CONFIG, HARDWARE, conv, 2, *room)
    tilings = tilings_of(conv, 2).tilings
    assert (found.bound <= found.cycles).all()
    for tiling in itertools.islice(ranked(CONFIG, HARDWARE, conv, 2, *room), 3):
        cycles = usage_of(CONFIG, HARDWARE, conv, tiling).cycles
        assert layer_bound(CONFIG, HARDWARE, conv) <= cycles
        assert 0.85 < cycles / found.cycles[tilings.index(tiling)] < 1.15


def test_two_threads_hide_what_one_waits_for() -> None:
    one, two = (tune(CONFIG, HARDWARE, SQUARE, threads).cycles for threads in (1, 2))
    assert SQUARE.gemm_steps / two > 0.9
    assert one > 1.15 * two


def test_a_layer_of_as_many_vector_steps_as_products_keeps_the_matrix_unit_busy() -> None:
    """Four steps of GEMM an output, and four of ALU: bias, shift, two bounds. With one more it would be 80 %."""
    tuned = tune(CONFIG, HARDWARE, Conv2D(1, 4, 4, 56, 56), 2, *usual_room(CONFIG, Conv2D(1, 4, 4, 56, 56)))
    assert Conv2D(1, 4, 4, 56, 56).gemm_steps / tuned.cycles > 0.93


@pytest.mark.long
def test_the_layers_of_resnet_reach_ninety_percent() -> None:
    """The geometric mean of C2 to C12, by the model of the cycle simulator."""
    layers = [
        Conv2D(1, i, o, size, size, (k, k), (s, s), (k // 2,) * 4)
        for i, o, size, k, s in (
            (4, 4, 56, 3, 1), (4, 4, 56, 1, 1), (4, 8, 56, 3, 2), (4, 8, 56, 1, 2), (8, 8, 28, 3, 1), (8, 16, 28, 3, 2),
            (8, 16, 28, 1, 2), (16, 16, 14, 3, 1), (16, 32, 14, 3, 2), (16, 32, 14, 1, 2), (32, 32, 7, 3, 1),
        )
    ]  # fmt: skip
    uses = [x.gemm_steps / tune(CONFIG, HARDWARE, x, 2, *usual_room(CONFIG, x), 3).cycles for x in layers]
    assert math.exp(np.log(uses).mean()) > 0.95


def test_what_does_not_fit_is_refused() -> None:
    small = Config(log_wgt_buff_size=8)
    assert layer_bound(small, HARDWARE, SQUARE) == math.inf
    with pytest.raises(UnsupportedError, match="does not fit on the accelerator"):
        tune(small, HARDWARE, SQUARE)
