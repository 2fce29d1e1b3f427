"""The cheapest configuration is found by bounds as it is by the costs of all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.backend.cpu.schedule.registry import REGISTRY
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DWorkload

DEEP = Conv2DWorkload(1, 512, 512, 9, 9, 7, 7, 16, 16, (3, 3), padded=True)
WORKLOADS = [
    ("conv2d_NCHWc", DEEP),
    ("conv2d_NCHWc", replace(DEEP, in_channels=256, out_channels=64, in_height=1, in_width=784, height=1, width=784,
                             kernel_size=(1, 1), padded=False)),
    ("conv2d_NCHWc", Conv2DWorkload(1, 3, 64, 230, 230, 112, 112, 1, 16, (7, 7), (2, 2), padded=True)),
    ("conv2d_NCHWc", Conv2DWorkload(2, 128, 128, 130, 130, 128, 128, 16, 16, (3, 3), other_inputs=1)),
    ("grouped_conv2d_NCHWc", Conv2DWorkload(1, 128, 128, 16, 16, 14, 14, 16, 16, (3, 3), groups=4, joined=2)),
    ("conv2d_winograd_NCHWc", replace(DEEP, padded=False, tile_size=2)),
    ("conv2d_winograd_NCHWc", replace(DEEP, padded=False, tile_size=4, in_height=58, in_width=58, height=56, width=56)),
]  # fmt: skip


@pytest.mark.parametrize("spelling", ["llvm -mcpu=skylake-avx512 -cores=1", "llvm -mcpu=znver4 -cores=4"])
@pytest.mark.parametrize(("tag", "workload"), WORKLOADS)
def test_the_cheapest_is_the_first_of_all(tag: str, workload: Conv2DWorkload, spelling: str) -> None:
    template, target = REGISTRY[tag], Target(spelling)
    asked: list[Config] = []

    def cost(config: Config) -> Cost:
        asked.append(config)
        return template.cost(workload, config, target)

    assert template.least is not None
    least, space = template.least(workload, target), template.space(workload, target)
    space.rank_by(cost, least)
    cheapest, priced = space.cheapest, len(asked)
    assert cheapest == space.ranked[0]
    assert priced < len(space.ranked)
    assert all(least(config) <= cost.cycles * (1 + 1e-9) for cost, config in space.ranked)


def test_of_equal_ones_the_first_is_cheapest() -> None:
    """Though bounds bring the last to be priced first."""
    space = ConfigSpace()
    space.define_knob("tile", (1, 2, 3))
    space.rank_by(lambda config: Cost(arithmetic=7.0), lambda config: 7.0 - config["tile"])
    assert space.cheapest == space.ranked[0] == (Cost(arithmetic=7.0), Config((("tile", 1),)))
    assert space.default == Config((("tile", 1),))


def test_weights_from_afar_are_asked_for_though_a_core_that_looks_far_ahead_hides_some():
    """Weights of a few megabytes for 7x7 outputs, by the window of Golden Cove and by that of Skylake-SP.

    Measured on a Xeon with AMX: 696 us with asking for the next panel, 719 without, and 1052 and 1167 where they
    come from memory. Of one tap, 777 us with it and 910 without.
    """
    far = Conv2DWorkload(1, 256, 512, 15, 15, 7, 7, 16, 16, (3, 3), (2, 2))
    one_tap = Conv2DWorkload(1, 512, 2048, 1, 49, 1, 49, 16, 16, other_inputs=1)
    cost = REGISTRY["conv2d_NCHWc"].cost
    tile = {"tile_rows": 2, "tile_blocks": 2, "tile_columns": 7, "band_rows": 7, "ahead": 0, "parts": 1}
    for name, hides in (("sapphirerapids", True), ("skylake-avx512", False)):
        target = Target(f"llvm -mcpu={name} -cores=1")
        for workload in (far, one_tap):
            assert REGISTRY["conv2d_NCHWc"].ranked(workload, target).default["ahead"] == 1
        assert (cost(far, Config(tuple(tile.items())), target).hidden > 0) == hides


def test_steps_with_more_multiply_adds_where_counting_takes_their_ports():
    """14 by 2 vectors take 52 us on a Xeon with AMX, 6 by 4 57 and 2 by 4 79, for 64 to 384 channels at 14x14."""
    workload = Conv2DWorkload(1, 64, 384, 14, 14, 14, 14, 16, 16)
    target = Target("llvm -mcpu=sapphirerapids -cores=1")
    assert target.machine.step > 0 and Target("llvm -mcpu=znver4").machine.step == 0
    chosen = REGISTRY["conv2d_NCHWc"].ranked(workload, target).default
    assert (chosen["tile_columns"], chosen["tile_blocks"]) == (14, 2)
