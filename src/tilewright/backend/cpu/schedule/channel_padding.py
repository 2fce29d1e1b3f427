"""Padding of an image's channels to whole vectors, where it has a few fewer.

408 channels are 51 blocks of 8, half vectors of 16 lanes; with 8 channels of zeros they are 26 whole ones. Processors
that do twice as many half vectors lose nothing by them, so the answer is the machine's.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from tilewright.backend.cpu.schedule.layout import CHANNEL_BLOCKS, channel_block
from tilewright.machine import Machine
from tilewright.target import Target

#: Whole vectors must do the padded work in this share of the time that short ones take: layers bound by memory lose.
_WORTH = 0.8


def padded_channels(channels: int, groups: Collection[int], target: Target) -> int:
    """The number of channels to pad `channels` to, `channels` itself where that does not pay.

    Both the filters of one convolution and the inputs of the next grow. `groups` are the channels of one group in the
    grouped convolutions that read or write such images: these need whole blocks of whole groups.
    """
    whole = channel_block(math.prod(CHANNEL_BLOCKS), target)
    if whole is None:
        return channels
    step = math.lcm(whole, *groups)
    padded = -(-channels // step) * step
    given = channel_block(channels, target)
    best = _rate(whole, target.machine)
    rate = target.machine.plain_rate * best  # of channels that are not even half vectors: vectors of columns
    if given is not None and 2 * given >= whole:
        rate = _rate(given, target.machine)
    return padded if (padded / channels) ** 2 * rate < _WORTH * best else channels


def _rate(block: int, machine: Machine) -> float:
    """Channels of a block that are multiplied in a cycle."""
    lanes = math.gcd(block, machine.lanes())
    return lanes * (machine.fma_per_cycle if lanes == machine.lanes() else machine.half_fma_per_cycle)
