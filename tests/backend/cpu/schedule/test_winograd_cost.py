"""The choice between sums over the window and Winograd, and of the tiles, with 512-bit vectors."""

from __future__ import annotations

import pytest

from tilewright.backend.cpu.schedule import tile
from tilewright.backend.cpu.schedule.layout import conv2d_layouts
from tilewright.backend.cpu.schedule.winograd import CONV2D_WINOGRAD
from tilewright.backend.cpu.schedule.winograd_cost import grid_of
from tilewright.target import Target
from tilewright.topi.schedule.workload import Conv2DWorkload

TARGET = Target("llvm -mcpu=znver4 -cores=2")


def workload(channels: int, filters: int, size: int, batch: int = 1, **more: object) -> Conv2DWorkload:
    """A convolution by 3 x 3 at the edges of which zeros are read."""
    facts = {"kernel_size": (3, 3), "padded": True, **more}
    return Conv2DWorkload(batch, channels, filters, size, size, size, size, **facts)  # type: ignore[arg-type]


def tile_size(conv: Conv2DWorkload, target: Target = TARGET) -> int:
    return conv2d_layouts(conv, target, 16)[0].tile_size


@pytest.mark.parametrize(
    ("channels", "size"), [(64, 224), (64, 56), (128, 112), (128, 28), (256, 56), (256, 14), (512, 28)]
)
def test_large_tiles_for_many_outputs(channels: int, size: int) -> None:
    assert tile_size(workload(channels, channels, size)) == 4


def test_other_windows_have_no_filter() -> None:
    for window in ({"kernel_size": (7, 7)}, {"kernel_size": (1, 1)}, {"kernel_size": (1, 4)}, {"strides": (3, 3)}):
        assert tile_size(workload(64, 64, 56, **window)) == 0


def test_few_tiles_do_not_pay_for_the_larger_weights() -> None:
    """512 channels at 7x7: F(4x4) has 38 MB of weights for four tiles."""
    assert tile_size(workload(512, 512, 7)) < 4
    assert tile_size(workload(512, 512, 2)) == 0


def test_slower_memory_beyond_the_second_level_takes_smaller_weights() -> None:
    """Skylake-SP reads half as many bytes a cycle from its L3 as Zen 4."""
    sizes = {
        cpu: tile_size(workload(256, 256, 14), Target(f"llvm -mcpu={cpu} -cores=1"))
        for cpu in ("znver4", "skylake-avx512")
    }
    assert sizes["skylake-avx512"] <= sizes["znver4"]


def test_tiles_fit_the_registers_and_the_grid() -> None:
    for size in (224, 14):
        conv = workload(64, 64, size, in_block=16, out_block=16, tile_size=4)
        chosen, grid = CONV2D_WINOGRAD.ranked(conv, TARGET).default, grid_of(conv)
        assert tile.fits(chosen["tile_rows"] * chosen["tile_columns"], chosen["tile_blocks"], TARGET)
        assert chosen["group_columns"] % chosen["tile_columns"] == 0
        assert chosen["group_rows"] <= grid.rows


def test_every_worker_gets_groups() -> None:
    conv = workload(256, 256, 14, in_block=16, out_block=16, tile_size=4)
    chosen = CONV2D_WINOGRAD.ranked(conv, Target("llvm -mcpu=znver4 -cores=8")).default
    groups = -(-grid_of(conv).rows // chosen["group_rows"]) * -(-grid_of(conv).columns // chosen["group_columns"])
    assert groups * (conv.blocks // chosen["tile_blocks"] if chosen["shared"] else 1) >= 8
