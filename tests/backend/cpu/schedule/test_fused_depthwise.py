"""A depthwise and a 1x1 convolution in one kernel, against the two apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import run, sample
from tilewright import topi
from tilewright.backend.cpu.schedule.fused_depthwise import band_rows, fuses_depthwise
from tilewright.target import Target


@pytest.mark.parametrize(("channels", "size", "stride", "outputs", "block", "taps"), [
    (2, (28, 28), 1, 2, 16, 3),
    (3, (32, 20), 2, 3, 8, 3),
    (2, (15, 13), 1, 1, 16, 3),
    (2, (34, 36), 1, 2, 16, 5),
])  # fmt: skip
@pytest.mark.parametrize("clipped", [True, False])
@pytest.mark.sample(3)
def test_one_kernel_equals_two(
    channels: int, size: tuple[int, int], stride: int, outputs: int, block: int, taps: int, clipped: bool
) -> None:
    data, window = sample(1, channels, *size, 16), sample(channels, 1, taps, taps, 1, 16, seed=1)
    weight = sample(outputs, channels, 1, 1, 16, block, seed=2)

    def depthwise(x: Any, w: Any) -> Any:
        conv = topi.nn.depthwise_conv2d_NCHWc(x, w, (stride, stride), (taps // 2,) * 4)
        return topi.clip(conv, -1.0, 2.0) if clipped else conv

    def pointwise(x: Any, w: Any) -> Any:
        return topi.nn.relu(topi.nn.conv2d_NCHWc(x, w, (1, 1), (0, 0, 0, 0)))

    apart = run(pointwise, run(depthwise, data, window), weight)
    together = run(lambda x, w, p: pointwise(depthwise(x, w), p), data, window, weight)
    np.testing.assert_allclose(together, apart, rtol=1e-5, atol=1e-5)


def test_bands_give_even_shares_and_fit_the_cache() -> None:
    target = Target("llvm -mcpu=znver4 -l2=1048576")
    assert band_rows(96, 56, 56, target) == [4, 2, 1]
    assert band_rows(192, 28, 28, target) == [2, 1]
    assert band_rows(384, 14, 14, target) == [1]
    assert band_rows(960, 7, 7, target) == []
    assert band_rows(2048, 56, 56, target) == []
    assert band_rows(2048, 56, 56, Target("llvm -mcpu=znver4 -l2=4194304")) == [2, 1]


def test_all_weights_must_stay_in_the_cache() -> None:
    """768 to 768 channels have 2.4 MB of weights, which every band would read again."""
    small, large = (Target(f"llvm -mcpu=znver4 -l2={size << 20}") for size in (2, 4))
    assert not fuses_depthwise(768, 768, 32, 32, small) and fuses_depthwise(768, 768, 32, 32, large)
    assert fuses_depthwise(384, 64, 14, 14, small) and not fuses_depthwise(960, 160, 7, 7, small)
