"""The facts that schedules, layouts and algorithms are chosen by, one type for each family of operators."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from tilewright.topi.nn.conv2d_grouped import parts_of_block
from tilewright.topi.schedule.config import Config
from tilewright.topi.winograd import Filter, find_filters


class DotShape(NamedTuple):
    """A product as dot products take it: columns of a panel of packed weights, the rows and the depth with zeros."""

    block: int
    rows: int
    depth: int


@dataclass(frozen=True)
class Conv2DWorkload:
    """A convolution of [batch, in_channels, in_height, in_width] to [batch, out_channels, height, width].

    `in_block` and `out_block` are the channel blocks of its layouts, 1 for plain images. `padded` says that a padded
    copy of the image is made first. `other_inputs` counts images of the size of the result that the epilogue reads,
    `epilogue` are its functions, such as exponentials, and its divisions for one element.
    `tile_size` is the m of Winograd, 0 for sums over the window; `group` are the rows and columns of tiles
    that its grid is made of where the size of the image is symbolic. `widths` are those that such an image may have.
    Each group is `joined` of so many; blocked kernels leave out the zeros between these. Of a transposed convolution,
    `phases` images of the batch are one image's, each with weights of its own.
    """

    batch: int
    in_channels: int
    out_channels: int
    in_height: int
    in_width: int
    height: int
    width: int
    in_block: int = 1
    out_block: int = 1
    kernel_size: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    padded: bool = False
    other_inputs: int = 0
    epilogue: tuple[int, int] = (0, 0)
    tile_size: int = 0
    group: tuple[int, int] | None = None
    widths: tuple[int, ...] = ()
    hint_columns: int = 0
    joined: int = 1
    phases: int = 1

    @property
    def depthwise(self) -> bool:
        """True if every group has one input channel."""
        return self.groups > 1 and self.groups == self.in_channels

    @property
    def taps(self) -> int:
        """Elements of the window."""
        return math.prod(self.kernel_size)

    @property
    def terms(self) -> int:
        """Products that are summed for one element of the result, in the mean over these."""
        return self.reached(1)

    def reached(self, blocks: int) -> int:
        """Products of which at least one of `blocks` neighbouring output blocks has one, in the mean over all such.

        They divide the blocks of a group.
        """
        every = self.taps * self.in_channels // self.groups
        if self.joined == 1 or self.out_block == 1:
            return every
        wide, filters = blocks * self.out_block, self.out_channels // self.groups // self.joined
        spans = [parts_of_block(position, wide, filters) for position in range(self.group_blocks // blocks)]
        return every * sum(last - first + 1 for first, last in spans) // (len(spans) * self.joined)

    @property
    def blocks(self) -> int:
        """Blocks of output channels."""
        return self.out_channels // self.out_block

    @property
    def group_blocks(self) -> int:
        """Blocks of output channels that read the same input channels."""
        return self.blocks // self.groups

    @property
    def products(self) -> int:
        """Multiply-adds of the definition."""
        return self.batch * self.out_channels * self.height * self.width * self.terms

    @property
    def in_bytes(self) -> int:
        """Bytes of one input image."""
        return 4 * self.in_channels * self.in_height * self.in_width

    @property
    def out_bytes(self) -> int:
        """Bytes of one image of the result."""
        return 4 * self.out_channels * self.height * self.width

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights of sums over the window."""
        return 4 * self.out_channels * self.terms

    @property
    def columns(self) -> int:
        """Columns of a plain image that vectors are chosen for.

        Where columns of a symbolic image are not neighbours in memory, each lane is loaded by itself, and one without a
        column costs as much as the others: then vectors are no longer than the image is by its hint.
        """
        return self.hint_columns or self.width

    @property
    def filters(self) -> tuple[Filter, Filter] | None:
        """The filters of rows and columns for `tile_size`, None where there are none or sums are over the window."""
        return find_filters(self.tile_size, self.kernel_size, self.strides) if self.tile_size else None


@dataclass(frozen=True)
class Conv2DLayouts:
    """One way to run a convolution: the layouts of its operands, the algorithm, its configuration, and the cost.

    Layouts are spelled as in the attributes of `nn.conv2d`. `tile_size` is the m of Winograd, 0 for sums over
    the window. Without a target to judge by there is no configuration, and the cost, in cycles, is 0.
    """

    data: str
    kernel: str
    out: str
    tile_size: int = 0
    config: Config | None = None
    cost: float = 0.0


class BitserialProduct(NamedTuple):
    """A product of few bits: images of [batch, height, width, channels] (a matrix is one row of pixels) and the window
    of its `units` weights; `corrected` says that sums of the data are needed beside it.
    """

    image: tuple[int, int, int, int]
    units: int
    window: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    data_bits: int
    weight_bits: int
    corrected: bool


class BitserialForm(NamedTuple):
    """A way to compute such a product: a method of `topi.nn.bitserial` and the output channels of a panel."""

    method: str
    lanes: int
