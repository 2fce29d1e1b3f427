"""How many channels an image should have so that blocks of channels are whole vectors, where it has a few fewer.

408 channels are 51 blocks of 8, half vectors of 16 lanes; with 8 channels of zeros they are 26 whole ones. Processors
that do twice as many half vectors lose nothing by them, so the answer is the machine's.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from tilewright.machine import Machine
from tilewright.target import Target
from tilewright.topi.schedule.cpu.layout import CHANNEL_BLOCKS, channel_block

#: Whole vectors must do the padded work in this share of the time that short ones take: layers bound by memory lose.
_WORTH = 0.8

#: Channels that are not even half vectors run plain: whole vectors of columns, less what changes of layout take.
_PLAIN = 0.64


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
    rate = _rate(given, target.machine) if given is not None and 2 * given >= whole else _PLAIN * best
    return padded if (padded / channels) ** 2 * rate < _WORTH * best else channels


def _rate(block: int, machine: Machine) -> float:
    """Channels of a block that are multiplied in a cycle."""
    lanes = math.gcd(block, machine.lanes())
    return lanes * (machine.fma_per_cycle if lanes == machine.lanes() else machine.half_fma_per_cycle)
