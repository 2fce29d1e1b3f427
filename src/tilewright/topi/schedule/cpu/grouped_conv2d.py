"""Grouped convolutions blocked by channels: their layouts and their schedule.

The vectors are of the output channels of one group, so groups of fewer channels than a vector has lanes are joined
first (`groups_to_join`): several become one, whose weights between channels of different groups are zeros. Whole
vectors for twice the products cost as much as half vectors, and the convolutions around keep whole ones.
"""

from __future__ import annotations

import math

from tilewright import te
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cpu.conv2d import schedule_conv2d
from tilewright.topi.schedule.cpu.conv2d_cost import banded_space, direct_cost
from tilewright.topi.schedule.cpu.conv2d_workload import workload_of
from tilewright.topi.schedule.template import Template
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Joining more groups than this would cost more products of zeros than vectors of columns lose.
_MOST_JOINED = 2


def groups_to_join(conv: Conv2DWorkload, out_block: int) -> int:
    """How many neighbouring groups must become one so that blocks of output channels lie in one group; 1 for none.

    1 too where that is not worth it, or where the groups cannot be joined evenly.
    """
    filters = conv.out_channels // conv.groups
    joined = math.lcm(filters, out_block) // filters
    return joined if conv.groups % joined == 0 and joined <= min(_MOST_JOINED, conv.groups - 1) else 1


def grouped_blocks(conv: Conv2DWorkload, in_block: int | None, out_block: int | None) -> tuple[int, int] | None:
    """The blocks of input and output channels of `conv` in a blocked layout; None where they reach over groups."""
    if in_block is None or out_block is None:
        return None
    inputs, filters = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    return None if inputs % in_block or filters % out_block else (in_block, out_block)


def schedule_grouped_conv2d(s: te.Schedule, conv: te.Tensor, out: te.Tensor, target: Target, config: Config) -> None:
    """Schedule `conv` (tag grouped_conv2d_NCHWc: [N, O/b, H, W, b]) and its epilogue `out`: as a dense convolution.

    The weights of a group, few, stay in the level-1 cache while all rows of the image pass by.
    """
    schedule_conv2d(s, conv, out, target, config)


GROUPED_CONV2D = Template("grouped_conv2d_NCHWc", workload_of, banded_space, direct_cost, schedule_grouped_conv2d)
