"""Buffers of one allocation, and of their own on a device whose buffers are smaller than all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.allocation import allocate_together
from tilewright.runtime.gpu.devices import open_device
from tilewright.runtime.gpu.emulation import EmulatedDevice


class Counting:
    """A device of which only the sizes of allocations and views are known."""

    alignment = 64

    def __init__(self, largest: int) -> None:
        self.largest, self.allocated = largest, list[int]()

    def allocate(self, nbytes: int) -> tuple[int, int]:
        if nbytes > self.largest:
            raise EnvironmentError_("no buffer is so large")
        self.allocated.append(nbytes)
        return (0, nbytes)

    def view(self, buffer: tuple[int, int], offset: int, nbytes: int) -> tuple[int, int]:
        assert offset % self.alignment == 0 and offset + nbytes <= buffer[1]
        return (offset, nbytes)


def test_parts_of_one_allocation_do_not_overlap() -> None:
    device: Any = Counting(1 << 20)
    assert allocate_together(device, [100, 0, 64, 1]) == [(0, 100), (128, 1), (192, 64), (256, 1)]
    assert device.allocated == [320]


def test_a_device_of_small_buffers_has_one_for_each() -> None:
    device: Any = Counting(128)
    assert allocate_together(device, [100, 128]) == [(0, 100), (0, 128)]
    with pytest.raises(EnvironmentError_, match="so large"):
        allocate_together(device, [129])


def test_a_model_of_fixed_sizes_takes_one_allocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights, arena, two inputs and two outputs; nothing is allocated by runs."""
    device = open_device("cuda", True)
    assert isinstance(device, EmulatedDevice)
    allocated: list[int] = []
    allocate = device.allocate
    monkeypatch.setattr(device, "allocate", lambda nbytes: allocated.append(nbytes) or allocate(nbytes))
    x, y = (relay.var(name, shape=(3, 50)) for name in "xy")
    weight = np.random.default_rng(0).standard_normal((7, 50)).astype("float32")
    product = relay.nn.softmax(relay.nn.dense(relay.add(x, y), relay.const(weight)))
    body = relay.Tuple([relay.nn.softmax(relay.nn.dense(product, relay.const(weight[:, :7]))), relay.multiply(x, y)])
    model = tw.compile(relay.IRModule.from_expr(relay.Function([x, y], body)), target="cuda -emulate=1", cache=False)
    a, b = np.random.default_rng(1).standard_normal((2, 3, 50)).astype("float32")
    for scale in (1, 2):
        np.testing.assert_allclose(model(a * scale, b)[1], a * scale * b, rtol=1e-6)
    assert len(allocated) == 1
