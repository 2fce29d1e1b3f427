"""Layers in bands of rows: the same integers as whole ones, and the memory that they need less of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.relay.helpers import module
from tilewright import relay
from tilewright.backend import backend_of
from tilewright.backend.board.estimate import estimated_ram
from tilewright.backend.board.patches import patches, possible_patches
from tilewright.relay import op
from tilewright.relay.interpreter.interpreter import interpret
from tilewright.relay.ir.infer_type import infer_type
from tilewright.target import Target
from tilewright.topi.reference.byte_conv import BYTES


def _narrow(sums: relay.Expr) -> relay.Expr:
    return op.cast(op.clip(op.right_shift(sums, relay.const(np.int32(7))), -128, 127), "int8")


def _conv(rng: np.random.Generator, x: relay.Expr, channels: int, kernel: int, **attrs: Any) -> relay.Expr:
    depth = op.common.dims(x)[3]
    weight = rng.integers(-9, 9, (channels, kernel * kernel * depth, 1)).astype(np.int8)
    bias = rng.integers(-300, 300, channels).astype(np.int32)
    window = ((kernel, kernel), attrs["strides"], attrs["padding"], 5, BYTES)
    return _narrow(op.nn.contrib_conv2d_bytes(x, relay.const(weight), relay.const(bias), *window))


def _depthwise(rng: np.random.Generator, x: relay.Expr, kernel: int, **attrs: Any) -> relay.Expr:
    depth = op.common.dims(x)[3]
    weight = rng.integers(-9, 9, (kernel, kernel, depth)).astype(np.int8)
    bias = rng.integers(-300, 300, depth).astype(np.int32)
    made = op.nn.contrib_depthwise_bytes(
        x, relay.const(weight), relay.const(bias), attrs["strides"], attrs["padding"], -5
    )
    return _narrow(made)


def _network(seed: int) -> tuple[relay.IRModule, np.ndarray]:
    """Random convolutions, depthwise ones and sums of two values, then a mean over the image."""
    rng = np.random.default_rng(seed)
    height, width = (int(rng.integers(9, 20)) for _ in range(2))
    value: relay.Expr = relay.var("x", shape=(1, height, width, 3), dtype="int8")
    before: list[relay.Expr] = []
    for _ in range(int(rng.integers(2, 6))):
        kernel, stride = int(rng.integers(1, 4)), int(rng.integers(1, 3))
        padding = tuple(int(one) for one in rng.integers(0, 2, 4)) if kernel > 1 else (0, 0, 0, 0)
        attrs = {"strides": (stride, stride), "padding": padding}
        if rng.integers(2):
            value = _conv(rng, value, int(rng.integers(2, 7)), kernel, **attrs)
        else:
            value = _depthwise(rng, value, kernel, **attrs)
        same = [one for one in before if op.common.dims(one) == op.common.dims(value)]
        if same and rng.integers(2):
            value = _narrow(op.cast(value, "int32") * relay.const(np.int32(90)) + op.cast(same[-1], "int32"))
        before.append(value)
        if min(op.common.dims(value)[1:3]) < 4:
            break
    total = op.sum(op.cast(value, "int32"), axis=(1, 2))
    x = rng.integers(-128, 128, (1, height, width, 3)).astype(np.int8)
    return infer_type(module(total)), x


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_in_bands_compute_the_same(seed: int) -> None:
    mod, x = _network(seed)
    want = interpret(mod, {"x": x})
    found = list(possible_patches(mod))
    assert [one.repeated for one in found] == sorted(one.repeated for one in found)
    for chosen in found[:: max(1, len(found) // 4)]:
        made = interpret(patches(mod, chosen), {"x": x})
        assert np.array_equal(made, want), chosen


def _deep() -> relay.IRModule:
    """A wide early image, which shrinks."""
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 32, 32, 3), dtype="int8")
    wide = _conv(rng, x, 16, 3, strides=(1, 1), padding=(1, 1, 1, 1))
    again = _conv(rng, wide, 16, 3, strides=(1, 1), padding=(1, 1, 1, 1))
    small = _conv(rng, again, 16, 3, strides=(2, 2), padding=(0, 0, 1, 1))
    return infer_type(module(op.sum(op.cast(small, "int32"), axis=(1, 2))))


def test_bands_need_less_memory_and_repeat_rows() -> None:
    mod, backend = _deep(), backend_of(Target("c -mcpu=cortex-m4"))
    whole = estimated_ram(mod, backend.asked(), 8, 4)
    assert 17_000 < whole < 22_000  # one image of 16,384 bytes, rows and windows
    last = max(one.end for one in possible_patches(mod))
    halves, quarters = (next(o for o in possible_patches(mod) if (o.end, o.bands) == (last, n)) for n in (2, 4))
    assert 0 < halves.repeated < quarters.repeated < halves.products
    assert estimated_ram(patches(mod, quarters), backend.asked(), 8, 4) < 0.7 * whole


def test_values_that_other_layers_read_and_layers_that_need_all_rows_have_no_bands() -> None:
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(1, 12, 12, 3), dtype="int8")
    first = _conv(rng, x, 4, 3, strides=(1, 1), padding=(1, 1, 1, 1))
    turned = _narrow(op.cast(op.transpose(first, (0, 2, 1, 3)), "int32"))
    mod = infer_type(module(_conv(rng, turned, 4, 3, strides=(1, 1), padding=(1, 1, 1, 1))))
    assert len({one.end for one in possible_patches(mod)}) == 1
