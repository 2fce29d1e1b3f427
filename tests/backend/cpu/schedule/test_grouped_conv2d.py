"""Grouped convolutions blocked by channels: beside the reference, and which groups are joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.backend.cpu.schedule.kernels import run, sample
from tilewright import te, topi
from tilewright.backend.cpu.schedule.dispatch import space_of
from tilewright.backend.cpu.schedule.grouped_conv2d import grouped_blocks, groups_to_join
from tilewright.backend.cpu.schedule.layout import conv2d_layouts
from tilewright.relay.transform.layout.widen_groups import _block_diagonal
from tilewright.target import Target
from tilewright.topi.reference import conv as reference
from tilewright.topi.reference.layout import layout_transform
from tilewright.topi.schedule.workload import Conv2DWorkload

#: (batch, channels, filters, height, width), kernel, strides, padding, dilation, groups, blocks
WINDOWS = [
    ((1, 64, 64, 14, 14), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4, (16, 16)),
    ((2, 96, 192, 7, 9), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 2, (16, 16)),
    ((1, 48, 24, 5, 33), (3, 5), (1, 2), (0, 2, 1, 2), (1, 1), 3, (8, 8)),
    ((1, 32, 64, 12, 11), (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 2, (16, 8)),
    ((1, 32, 32, 40, 1), (7, 1), (1, 1), (3, 0, 3, 0), (1, 1), 2, (16, 16)),
    ((1, 48, 48, 6, 6), (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 3, (4, 16)),
]


@pytest.mark.parametrize(("size", "window", "strides", "padding", "dilation", "groups", "blocks"), WINDOWS)
def test_equals_the_reference(size, window, strides, padding, dilation, groups, blocks):
    batch, channels, filters, height, width = size
    inner, outer = blocks
    data, kernel = sample(batch, channels, height, width), sample(filters, channels // groups, *window, seed=1)
    bias = sample(filters, 1, 1, seed=2)

    def build(x: te.Tensor, w: te.Tensor, b: te.Tensor) -> te.Tensor:
        return topi.add(topi.nn.grouped_conv2d_NCHWc(x, w, strides, padding, dilation, groups), b)

    result = run(
        build,
        layout_transform(data, "NCHW", f"NCHW{inner}c"),
        layout_transform(kernel, "OIHW", f"OIHW{inner}i{outer}o"),
        layout_transform(bias[None], "NCHW", f"NCHW{outer}c")[0],
    )
    expected = reference.conv2d_nchw(data, kernel, strides, padding, dilation, groups) + bias
    np.testing.assert_allclose(layout_transform(result, f"NCHW{outer}c", "NCHW"), expected, rtol=1e-5, atol=1e-4)


#: channels, filters, groups, joined, blocks, kernel, strides
JOINED = [
    (96, 96, 4, 2, (16, 16), (3, 3), (1, 1)),
    (80, 80, 2, 2, (16, 16), (3, 3), (2, 2)),
    (48, 96, 4, 4, (16, 16), (3, 1), (1, 1)),
    (48, 48, 6, 2, (8, 16), (1, 1), (1, 1)),
    (160, 80, 4, 4, (16, 16), (1, 3), (1, 1)),
    (24, 24, 2, 2, (8, 8), (5, 5), (1, 1)),
]


@pytest.mark.parametrize(("channels", "filters", "groups", "joined", "blocks", "window", "strides"), JOINED)
@pytest.mark.sample(3)
def test_joined_groups_leave_out_the_zeros_between_them(channels, filters, groups, joined, blocks, window, strides):
    inner, outer = blocks
    data, kernel = sample(2, channels, 9, 11), sample(filters, channels // groups, *window, seed=1)
    padding = (window[0] // 2, window[1] // 2) * 2
    wide = _block_diagonal(kernel, groups, joined)
    wide[wide == 0] = np.nan  # what may be left out is

    def build(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return topi.nn.grouped_conv2d_NCHWc(x, w, strides, padding, (1, 1), groups // joined, joined=joined)

    result = run(
        build,
        layout_transform(data, "NCHW", f"NCHW{inner}c"),
        layout_transform(np.where(_needed(wide, joined, groups, outer), np.nan_to_num(wide), wide), "OIHW",
                         f"OIHW{inner}i{outer}o"),
    )  # fmt: skip
    expected = reference.conv2d_nchw(data, kernel, strides, padding, (1, 1), groups)
    np.testing.assert_allclose(layout_transform(result, f"NCHW{outer}c", "NCHW"), expected, rtol=1e-5, atol=1e-4)


def _needed(wide: np.ndarray, joined: int, groups: int, block: int) -> np.ndarray:
    """Of the weights of joined groups, those that a block of output channels shares with a product that is no zero."""
    there = ~np.isnan(wide).any(axis=(2, 3), keepdims=True)
    parts = there.reshape(-1, block, joined, wide.shape[1] // joined).any(axis=(1, 3), keepdims=True)
    return np.broadcast_to(parts, (len(wide) // block, block, joined, wide.shape[1] // joined)).reshape(there.shape)


def test_a_tile_is_of_one_group():
    data, kernel = te.placeholder((1, 8, 14, 14, 16)), te.placeholder((8, 2, 3, 3, 16, 16))
    out = topi.nn.grouped_conv2d_NCHWc(data, kernel, (1, 1), (1, 1, 1, 1), (1, 1), 4)
    space = space_of([out], Target("llvm -mcpu=znver4"))
    assert space is not None and set(space.knobs["tile_blocks"]) == {1, 2}


def shape(channels: int, filters: int, groups: int) -> Conv2DWorkload:
    return Conv2DWorkload(1, channels, filters, 14, 14, 14, 14, kernel_size=(3, 3), groups=groups)


@pytest.mark.parametrize(
    ("channels", "groups", "block", "joined"),
    [
        (256, 32, 16, 2), (512, 32, 16, 1), (48, 2, 16, 1), (96, 4, 16, 2), (128, 32, 16, 1), (128, 32, 8, 2),
        (320, 8, 16, 2), (96, 8, 16, 4), (160, 16, 16, 1), (144, 6, 8, 1),
    ],
)  # fmt: skip
def test_groups_are_joined_where_half_of_the_products_are_of_use(channels, groups, block, joined):
    assert groups_to_join(shape(channels, channels, groups), block) == joined


def test_the_terms_of_joined_groups_are_those_that_blocks_need():
    """Of three blocks over two groups of 24, the first and the last need one, the one between both."""
    joined = replace(shape(96, 96, 2), joined=2, in_block=16, out_block=16)
    assert joined.terms == 9 * 24 * 4 // 3
    assert joined.reached(3) == 9 * 48


def test_blocks_that_reach_over_groups():
    assert grouped_blocks(shape(64, 64, 4), 16, 16) == (16, 16)
    assert grouped_blocks(shape(64, 64, 8), 16, 16) is None and grouped_blocks(shape(64, 64, 8), 8, 8) == (8, 8)
    assert grouped_blocks(shape(60, 240, 3), None, 16) is None


def test_short_rows_are_dear_in_plain_images():
    """14 columns are vectors of 8, 4 and 2: three instructions where a block of 16 channels takes one for a column."""
    ways = conv2d_layouts(shape(512, 512, 32), Target("llvm -mcpu=skylake-avx512"), 16)
    blocked, plain = (next(way.cost for way in ways if way.out == layout) for layout in ("NCHW16c", "NCHW"))
    assert 2 * blocked < plain
