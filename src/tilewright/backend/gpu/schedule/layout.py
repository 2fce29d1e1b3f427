"""The ways in which a convolution can run on a GPU, and the cost of each: an implicit product, or Winograd."""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.gpu.schedule.product import PRODUCT, ProductWorkload, product_tiles
from tilewright.backend.gpu.schedule.winograd import WINOGRAD
from tilewright.backend.gpu.schedule.winograd_cost import FLOAT, WinogradWorkload, near_rate
from tilewright.target import DeviceTarget
from tilewright.topi.schedule.workload import Conv2DLayouts, Conv2DWorkload
from tilewright.topi.winograd import TILE_SIZES, Filter

#: Points of a tile up to which a thread's registers hold it, its half-transformed form and what it is made of.
_MOST_POINTS = 36
#: Winograd convolution must win by this much: it takes more memory and rounds more.
_MARGIN = 0.9


def conv2d_ways(conv: Conv2DWorkload, target: DeviceTarget, winograd: bool) -> list[Conv2DLayouts]:
    """The least costly of Winograd's tiles where it costs less than the implicit product, then that.

    Winograd's product needs threads that share operands.
    """
    plain = Conv2DLayouts("NCHW", "OIHW", "NCHW")
    if not machine_of(target).shares or conv.groups != 1 or conv.dilation != (1, 1) or not winograd:
        return [plain]
    sums = ProductWorkload(1, conv.out_channels, conv.batch * conv.height * conv.width, conv.terms, FLOAT)
    if not product_tiles(sums, target):
        return [plain]
    space, machine = PRODUCT.ranked(sums, target), machine_of(target)
    images = conv.batch * (conv.in_bytes + conv.out_bytes)
    streamed = images / near_rate(images, machine) + conv.weight_bytes / machine.dram_bytes
    cost = space.cost(space.default)
    plain = replace(plain, cost=max(cost.arithmetic, streamed * machine.clock) + cost.fixed)
    ways = [way for size in TILE_SIZES if (way := _winograd(replace(conv, tile_size=size), target)) is not None]
    best = min(ways, key=lambda way: way.cost, default=plain)
    return [best, plain] if best.cost < _MARGIN * plain.cost else [plain]


def _winograd(conv: Conv2DWorkload, target: DeviceTarget) -> Conv2DLayouts | None:
    """Winograd by the tile size of `conv`; None where there are no filters, or none that registers hold."""
    if conv.filters is None or math.prod(max(f.points, f.inputs) for f in conv.filters) > _MOST_POINTS:
        return None
    facts = _workload(conv, conv.filters)
    if not product_tiles(facts.product, target):
        return None
    space = WINOGRAD.ranked(facts, target)
    return Conv2DLayouts("NCHW", "OIHW", "NCHW", conv.tile_size, cost=space.cost(space.default).cycles)


def _workload(conv: Conv2DWorkload, filters: tuple[Filter, Filter]) -> WinogradWorkload:
    """The facts of `conv` by these filters."""
    down, across = filters
    tiles = conv.batch * -(-conv.height // down.outputs) * -(-conv.width // across.outputs)
    image, result = conv.batch * conv.in_bytes, conv.batch * conv.out_bytes
    return WinogradWorkload(
        down.points * across.points, conv.out_channels, conv.in_channels, tiles, image // FLOAT, result // FLOAT
    )
