"""The choice between direct and Winograd convolution, and of the tiles, on a processor with 512-bit vectors."""

from __future__ import annotations

import pytest

from tilewright.target import Target
from tilewright.topi.schedule.cpu.choose_conv2d import Conv2DWorkload, winograd_grid, winograd_tile_size
from tilewright.topi.schedule.cpu.winograd_tile import choose

TARGET = Target("llvm -mcpu=znver4 -cores=2")


SIZES = ((64, 28), (128, 14), (256, 7))


def workload(channels: int, filters: int, size: int, batch: int = 1) -> Conv2DWorkload:
    return Conv2DWorkload(batch, channels, filters, size, size, 16, 16)


@pytest.mark.parametrize(
    ("channels", "size"), [(64, 224), (64, 56), (128, 112), (128, 28), (256, 56), (256, 14), (512, 28), (512, 14)]
)
def test_large_tiles_for_many_outputs(channels: int, size: int) -> None:
    assert winograd_tile_size(workload(channels, channels, size), TARGET) == 4


def test_stride_two_saves_less() -> None:
    """Up to 1.78 times at 28x28; at 7x7 a quarter of the tiles' work is lost, and the direct kernel is faster."""
    strided = {size: Conv2DWorkload(1, c, 2 * c, size, size, 16, 16, strides=(2, 2)) for c, size in SIZES}
    assert {size: winograd_tile_size(w, TARGET) for size, w in strided.items()} == {28: 4, 14: 2, 7: None}


def test_long_kernels_are_filtered_along_one_dimension() -> None:
    along = {k: Conv2DWorkload(1, 192, 192, 17, 17, 16, 16, k) for k in ((1, 7), (7, 1), (5, 5), (1, 3))}
    assert {k: winograd_tile_size(w, TARGET) for k, w in along.items()} == {(1, 7): 4, (7, 1): 4, (5, 5): 2, (1, 3): 4}


def test_other_windows_have_no_filter() -> None:
    for window in ({"kernel_size": (7, 7)}, {"kernel_size": (1, 1)}, {"kernel_size": (1, 4)}, {"strides": (3, 3)}):
        assert winograd_tile_size(Conv2DWorkload(1, 64, 64, 56, 56, 16, 16, **window), TARGET) is None


def test_few_tiles_do_not_pay_for_the_larger_weights() -> None:
    """512 channels at 7x7: F(4x4) has 38 MB of weights for four tiles."""
    assert winograd_tile_size(workload(512, 512, 7), TARGET) == 2
    assert winograd_tile_size(workload(512, 512, 2), TARGET) is None


def test_a_batch_shares_the_weights() -> None:
    assert winograd_tile_size(workload(512, 512, 7, batch=8), TARGET) == 4


def test_tiles_of_a_large_image_are_transformed_by_their_worker() -> None:
    large, small = (choose(winograd_grid(workload(64, 64, size), 4), TARGET) for size in (224, 14))
    assert not large.shared and small.shared
    for chosen, grid in ((large, 56), (small, 4)):
        assert chosen.rows * chosen.columns * chosen.blocks < TARGET.vector_registers
        assert grid % chosen.columns == 0 and chosen.group_columns % chosen.columns == 0


def test_every_worker_gets_groups() -> None:
    grid = winograd_grid(workload(256, 256, 14), 4)
    chosen = choose(grid, Target("llvm -mcpu=znver4 -cores=8"))
    groups = grid.out_blocks // chosen.blocks * -(-grid.rows // chosen.group_rows)
    assert groups >= 8
