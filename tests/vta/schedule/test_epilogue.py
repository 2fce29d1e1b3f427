"""The end of a layer: the bytes that are stored, whatever the bias and shift, and how many steps that takes."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.vta import Config, Dram, Isa, Simulator
from tilewright.vta.commands import Commands
from tilewright.vta.schedule.epilogue import Epilogue, Step, Stretch

ISA, CHANNELS, PIXELS = Isa(), 40, 6


def stored(epilogue: Epilogue, dram: Dram, sums: np.ndarray) -> np.ndarray:
    """The bytes that are stored of two tiles of sums, one behind the other in the same accumulators."""
    isa, blocks = ISA, -(-CHANNELS // 16)
    commands = Commands(isa, dram)
    out = dram.reserve("OUT", 2 * blocks * PIXELS)
    on = Stretch(0, 0, 0, blocks, PIXELS)
    epilogue.begin(commands, 1)
    epilogue.zero(commands, 1, on, by_vector_unit=True)
    for tile, values in enumerate(sums):
        at = dram.put("ACC", np.pad(values, ((0, 0), (0, blocks * 16 - CHANNELS))).reshape(PIXELS, blocks, 16)
                        .swapaxes(0, 1).reshape(-1, 1, 16))  # fmt: skip
        if tile:
            commands.wait("compute", "store")
        epilogue.clear(commands, 1, on, by_vector_unit=True)
        commands.load("ACC", 1024, at, (1, blocks * PIXELS), blocks * PIXELS)  # in place of products
        commands.alu("ADD", commands.uops((1024 << 11,)), inner=(blocks * PIXELS, 1, 1, 0))
        epilogue.apply(commands, 1, on)
        commands.signal("compute", "store")
        commands.wait("store", "compute")
        commands.store(0, out + tile * blocks * PIXELS, (1, blocks * PIXELS), blocks * PIXELS)
        commands.signal("store", "compute")
    commands.wait("compute", "store")
    commands.end()
    Simulator(isa, dram).run(commands.program(), seed=0)
    found = dram.read("OUT", out, 2 * blocks * PIXELS).reshape(2, blocks, PIXELS, 16).swapaxes(1, 2)
    return found.reshape(2, PIXELS, -1)[..., :CHANNELS]


@pytest.mark.parametrize("low", [-128, -3, 0])
@pytest.mark.parametrize("largest_bias", [10, 40_000, 3_000_000])
@pytest.mark.parametrize("shift", [1, 5, 17, "each"])
def test_sums_that_begin_with_the_bias(low: int, largest_bias: int, shift: int | str) -> None:
    rng = np.random.default_rng(5)
    by = rng.integers(1, 12, CHANNELS, dtype=np.int32) if shift == "each" else int(shift)
    bias = rng.integers(-largest_bias, largest_bias, CHANNELS, dtype=np.int32)
    spread = 200 << np.broadcast_to(by, CHANNELS).astype(np.int64)
    sums = (rng.integers(-1000, 1000, (2, PIXELS, CHANNELS)) * spread // 1000).astype(np.int32)
    dram, steps = Dram(ISA, 1 << 18), [Step("ADD", bias), Step("SHR", by), Step("MAX", low), Step("MIN", 100)]
    epilogue = Epilogue.of(ISA, dram, 3, steps, spread)
    expected = np.clip(sums.astype(np.int64) + bias >> by, low, 100)
    np.testing.assert_array_equal(stored(epilogue, dram, sums), expected)
    if largest_bias == 10:
        assert [step.op for step in epilogue.steps] == ["MIN", "SHR", "MAX", "MIN"] and epilogue.begins


BIAS = np.full(CHANNELS, 7, np.int32)
USUAL = [Step("ADD", BIAS), Step("SHR", 4), Step("MAX", 0), Step("MIN", 127)]


@pytest.mark.parametrize(
    ("steps", "largest", "why"),
    [
        (USUAL, None, "nothing is known of the sums"),
        (USUAL, np.full(CHANNELS, (1 << 31) - 5), "sums could wrap"),
        ([USUAL[0], Step("SHR", 0), *USUAL[2:]], np.full(CHANNELS, 1000), "nothing is shifted, and the bias is large"),
        ([USUAL[0], Step("SHR", -1), *USUAL[2:]], np.full(CHANNELS, 1000), "shifted to the left"),
        ([USUAL[0], Step("MUL", 3), *USUAL[1:]], np.full(CHANNELS, 1000), "multiplied"),
        (USUAL[1:], np.full(CHANNELS, 1000), "no bias"),
        ([Step("ADD", np.full(CHANNELS, 1 << 26, np.int32)), *USUAL[1:]], np.full(CHANNELS, 1000), "too far"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_sums_that_begin_with_zero(steps: list[Step], largest: np.ndarray | None, why: str) -> None:
    epilogue = Epilogue.of(ISA, Dram(ISA, 1 << 16), 3, steps, largest)
    assert not epilogue.begins and [s.op for s in epilogue.steps] == [s.op for s in steps], why


def test_version_2_moves_the_bias() -> None:
    isa = Isa(Config(isa_version=2))
    epilogue = Epilogue.of(isa, Dram(isa, 1 << 16), 3, USUAL, np.full(CHANNELS, 1000))
    assert [step.op for step in epilogue.steps] == ["MOV", "SHR", "CLIP"] and epilogue.begins
    pooled = Epilogue.of(isa, Dram(isa, 1 << 16), 3, USUAL)
    assert [step.op for step in pooled.steps] == ["ADD", "SHR", "CLIP"] and not pooled.begins
