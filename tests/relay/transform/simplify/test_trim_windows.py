"""Taps that only meet padding are left out of convolutions, and the results stay."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.relay.helpers import assert_same, module, weights
from tilewright import relay
from tilewright.relay.ir.visitor import calls
from tilewright.relay.transform.simplify.trim_windows import trim_windows


def _taps(mod: relay.IRModule) -> tuple[int, ...]:
    (conv,) = calls(mod["main"].body)
    return conv.args[1].data.shape[2:]


@pytest.mark.parametrize(
    ("size", "rate", "left"), [(6, 12, (1, 1)), (6, 6, (1, 1)), (6, 5, (3, 3)), (1, 1, (1, 1)), (28, 24, (3, 3))]
)
def test_only_taps_that_meet_the_map_stay(size: int, rate: int, left: tuple[int, ...]) -> None:
    x = relay.var("x", shape=(2, 3, size, size))
    conv = relay.nn.conv2d(x, weights(4, 3, 3, 3), padding=rate, dilation=rate, kernel_size=3)
    mod = module(conv)
    after = trim_windows(mod)
    assert _taps(after) == left
    assert_same(mod, after)


def test_other_layouts_are_trimmed() -> None:
    x = relay.var("x", shape=(1, 1, 9, 4))
    mod = module(relay.nn.conv2d(x, weights(3, 3, 4, 8), padding=1, data_layout="NHWC", kernel_layout="HWIO"))
    after = trim_windows(mod)
    (conv,) = calls(after["main"].body)
    assert conv.args[1].data.shape == (1, 3, 4, 8) and conv.attrs.padding == (0, 1, 0, 1)
    assert_same(mod, after)


@pytest.mark.parametrize("dims", [1, 3])
def test_lines_and_volumes_are_trimmed(dims: int) -> None:
    x = relay.var("x", shape=(1, 2, *(2,) * dims))
    conv = {1: relay.nn.conv1d, 3: relay.nn.conv3d}[dims]
    mod = module(conv(x, weights(3, 2, *(5,) * dims), padding=2))
    after = trim_windows(mod)
    assert _taps(after) == (3,) * dims
    assert_same(mod, after)


def test_weights_that_are_not_finite_stay() -> None:
    value = np.ones((1, 1, 3, 3), "float32")
    value[0, 0, 0, 0] = np.inf
    x = relay.var("x", shape=(1, 1, 1, 1))
    mod = module(relay.nn.conv2d(x, relay.const(value), padding=1))
    assert trim_windows(mod) is mod


def test_an_open_size_keeps_its_taps() -> None:
    x = relay.var("x", relay.TensorType((1, 3, relay.Any(), 1)))
    mod = module(relay.nn.conv2d(x, weights(4, 3, 3, 3), padding=1))
    assert _taps(trim_windows(mod)) == (3, 1)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4), st.integers(1, 6), st.integers(0, 9), st.integers(0, 9))
def test_any_window_gives_what_it_gave(
    extent: int, taps: int, step: int, dilation: int, before: int, after: int
) -> None:
    assume(extent + before + after > (taps - 1) * dilation)
    x = relay.var("x", shape=(1, 1, extent))
    mod = module(relay.nn.conv1d(x, weights(1, 1, taps), strides=step, padding=(before, after), dilation=dilation))
    assert_same(mod, trim_windows(mod))
