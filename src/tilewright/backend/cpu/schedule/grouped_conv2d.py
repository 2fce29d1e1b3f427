"""Grouped convolutions blocked by channels: their layouts and their schedule.

The vectors are of the output channels of one group, so groups of fewer channels than a vector has lanes are joined
first (`groups_to_join`): several become one, whose weights between channels of different groups are zeros. Products
with these are left out where no channel of a block needs them; the others, half of all at most, cost as much as half
vectors would, and the convolutions around keep whole ones.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tilewright import te
from tilewright.backend.cpu.schedule.conv2d import schedule_conv2d
from tilewright.backend.cpu.schedule.conv2d_cost import banded_space, direct_cost, direct_least
from tilewright.backend.cpu.schedule.conv2d_workload import workload_of
from tilewright.target import Target
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.template import Template
from tilewright.topi.schedule.workload import Conv2DWorkload

#: Of the products that blocks of joined groups do at least this share must not be with zeros: vectors of columns of
#: plain images lose less else.
_LEAST_OF_USE = 0.5

#: Input channels of a piece that belongs to one of the joined groups, at least: the loop over them is the innermost.
_LEAST_PIECE = 4


def groups_to_join(conv: Conv2DWorkload, out_block: int) -> int:
    """The number of neighbouring groups that must become one so that blocks of output channels lie in one group; 1 for
    none.

    1 too where that is not worth it, or where the groups cannot be joined evenly.
    """
    inputs, filters = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    joined = math.lcm(filters, out_block) // filters
    if conv.groups % joined or joined == conv.groups or math.gcd(inputs, out_block) < min(_LEAST_PIECE, out_block):
        return 1
    wide = replace(conv, groups=conv.groups // joined, joined=joined, out_block=out_block)
    return joined if conv.terms >= _LEAST_OF_USE * wide.terms else 1


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


GROUPED_CONV2D = Template(
    "grouped_conv2d_NCHWc", workload_of, banded_space, direct_cost, schedule_grouped_conv2d, least=direct_least
)
