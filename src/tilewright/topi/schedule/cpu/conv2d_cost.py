"""What a convolution costs in each layout, and what changing a layout costs: the figures that layouts are chosen by.

The unit is one vector multiply-add, about a cycle of one core. The constants were fitted to the convolutions of
ResNet-18 and MobileNet on one core with AVX-512 (docs/performance.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.target import Target
from tilewright.topi.schedule.cpu import tile
from tilewright.topi.schedule.cpu.choose_conv2d import (
    DIRECT_SHARE,
    Conv2DWorkload,
    direct_cost,
    winograd_cost,
    winograd_tile_size,
)

#: Reading or writing an image of another layout through registers: cycles for each vector, and for the kernel itself.
_TRANSFORM_VECTOR, _KERNEL = 6.5, 6000.0

#: A register tile that reads plain images touches one page for each channel.
_PLAIN_READ = 1.002

#: Depthwise: cycles for each vector multiply-add, blocked and plain; for each vector of input, of blocked images and of
#: plain ones at stride 1 and beyond.
_PLAIN_STEP = 1.2
_DEPTHWISE_STEP, _DEPTHWISE_READ, _PLAIN_READ_UNIT, _PLAIN_READ_STRIDED = 1.0, 0.8, 4.0, 6.5


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution of [batch, in_channels, in_height, in_width] to [batch, out_channels, height, width]."""

    batch: int
    in_channels: int
    out_channels: int
    in_height: int
    in_width: int
    height: int
    width: int
    kernel_size: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    padded: bool = False

    @property
    def depthwise(self) -> bool:
        """True if every group has one input channel."""
        return self.groups > 1 and self.groups == self.in_channels

    @property
    def in_pixels(self) -> int:
        """Pixels of one input image."""
        return self.in_height * self.in_width

    @property
    def products(self) -> int:
        """Multiply-adds."""
        taps = math.prod(self.kernel_size) * self.in_channels // self.groups
        return self.batch * self.out_channels * self.height * self.width * taps

    def blocked(self, in_block: int, out_block: int) -> Conv2DWorkload:
        """The same in blocks of channels."""
        return Conv2DWorkload(
            self.batch,
            self.in_channels,
            self.out_channels,
            self.height,
            self.width,
            in_block,
            out_block,
            self.kernel_size,
            self.strides,
        )


def transform_cost(elements: int, target: Target) -> float:
    """Estimated cost of bringing `elements` floats from one layout to another in a kernel of its own."""
    return _KERNEL + _TRANSFORM_VECTOR * elements / _lanes(target)


def blocked_cost(conv: ConvolutionShape, in_block: int, out_block: int, target: Target) -> float:
    """Blocked to blocked: direct or, where that is faster, by minimal filtering."""
    workload = conv.blocked(in_block, out_block)
    tile_size = winograd_tile_size(workload, target) if conv.dilation == (1, 1) else None
    return direct_cost(workload, target) if tile_size is None else winograd_cost(workload, tile_size, target)


def plain_input_cost(conv: ConvolutionShape, out_block: int, target: Target) -> float:
    """Plain to blocked, direct."""
    return direct_cost(conv.blocked(1, out_block), target) * _PLAIN_READ


def plain_cost(conv: ConvolutionShape, target: Target) -> float:
    """Plain to plain: vectors along the pixels of a convolution by one tap, along the columns of any other."""
    lanes = _lanes(target)
    if conv.kernel_size == (1, 1) and conv.groups == 1 and not conv.padded:
        pixels = conv.height * conv.width
        chosen = tile.choose_plain(conv.out_channels, pixels, lanes, target)
        step = lanes * chosen.blocks
        share = DIRECT_SHARE * pixels / (-(-pixels // step) * step)
        sampled = 0 if conv.strides == (1, 1) else conv.batch * conv.in_channels * pixels / lanes * _PLAIN_READ_STRIDED
    else:
        share = DIRECT_SHARE / _cut(conv.width, lanes)
        sampled = conv.batch * conv.in_channels * conv.in_pixels / lanes * _PLAIN_READ_STRIDED
    return conv.products / lanes / share * _weight_misses(conv, target) + sampled


def _weight_misses(conv: ConvolutionShape, target: Target) -> float:
    """How much longer multiply-adds take because weights, read one by one in many streams, miss the caches."""
    weights = 4 * math.prod(conv.kernel_size) * conv.in_channels * conv.out_channels // conv.groups
    return 1.0 + 0.1 * (weights > 2 * target.l1d) + 0.6 * (weights > target.l2 // 2)


def depthwise_cost(conv: ConvolutionShape, block: int, target: Target) -> float:
    """Depthwise, blocked to blocked."""
    lanes = min(block, _lanes(target))
    read = conv.batch * conv.in_channels * conv.in_pixels / lanes * _DEPTHWISE_READ
    return conv.products / lanes * _DEPTHWISE_STEP + read


def plain_depthwise_cost(conv: ConvolutionShape, target: Target) -> float:
    """Depthwise, plain to plain; strides gather the columns of each phase."""
    lanes = _lanes(target)
    each = _PLAIN_READ_UNIT if conv.strides[1] == 1 else _PLAIN_READ_STRIDED
    read = conv.batch * conv.in_channels * conv.in_pixels / lanes * each * _cut(conv.in_width, lanes)
    return conv.products / lanes * _PLAIN_STEP * _cut(conv.width, lanes) + read


def _cut(width: int, lanes: int) -> float:
    """How many times as long a row of `width` takes as it would if it were whole vectors; half vectors cost half."""
    whole, rest = divmod(width, lanes)
    return (whole + 0.5 * rest.bit_count()) / (width / lanes)


def _lanes(target: Target) -> int:
    """Floats in one vector register."""
    return max(4, target.vector_bits // 32)
