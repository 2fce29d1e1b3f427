"""Pieces at distances of powers of two take up more of a cache than their bytes, and costs say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.backend.cpu.schedule.cache_sets import occupied_bytes, rows_in_sets
from tilewright.backend.cpu.schedule.conv2d_workload import Conv2DWorkload
from tilewright.backend.cpu.schedule.layout import conv2d_layouts
from tilewright.machine import Cache, machine_of
from tilewright.target import Target

SKYLAKE = machine_of("skylake-avx512")


@pytest.mark.parametrize(
    ("stride", "each"), [(4096, 4096), (16384, 16384), (3 * 4096, 4096), (4096 + 64, 64), (784, 64), (1 << 20, 1 << 16)]
)
def test_each_piece_takes_what_the_distance_shares_with_the_sets(stride, each):
    assert occupied_bytes(512 * 64, 512, stride, SKYLAKE) == 512 * each


def test_more_ways_are_fewer_sets():
    wide = replace(SKYLAKE, l2=Cache(SKYLAKE.l2.size, 4 * SKYLAKE.l2.ways))
    assert occupied_bytes(0, 10, 1 << 20, wide) == occupied_bytes(0, 10, 1 << 20, SKYLAKE) / 4


@pytest.mark.parametrize("layout", ["NCHW", "NCHW16c"])
def test_planes_a_power_of_two_apart_are_dear_to_read_plain(layout):
    """64 x 64 pixels are as many as 63 x 65; their 1024 planes fall into eight sets of the level-2 cache."""

    def cost(height: int, width: int) -> float:
        conv = Conv2DWorkload(1, 1024, 256, height, width, height, width)
        ways = conv2d_layouts(conv, Target("llvm -mcpu=skylake-avx512"))
        return min(way.cost for way in ways if (way.data, way.out) == ("NCHW", layout))

    assert cost(64, 64) > 1.5 * cost(63, 65)


@pytest.mark.parametrize(("stride", "rows"), [(2048, 8), (1024, 16), (4096, 4), (4096 + 64, 256), (1000, 256)])
def test_rows_of_a_tile_have_half_of_the_ways_of_their_sets(stride, rows):
    assert rows_in_sets(stride, SKYLAKE) == rows
