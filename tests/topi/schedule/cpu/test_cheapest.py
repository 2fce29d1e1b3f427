"""The cheapest configuration is found by bounds as it is by the costs of all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cost import Cost
from tilewright.topi.schedule.cpu.registry import REGISTRY
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
