"""The protocol of a backend to the graph compiler: the questions that layout rules and graph passes ask.

`tilewright.backend` answers them for each kind of target. Passes receive the backend as an argument, so that nothing in
`relay` depends on how kernels are scheduled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tilewright.target import Target
from tilewright.topi.schedule.workload import BitserialForm, BitserialProduct, Conv2DLayouts, Conv2DWorkload, DotShape


class GraphBackend(Protocol):
    """The answers of one kind of target, for one target of it; `tilewright.backend.Backend` documents each."""

    @property
    def target(self) -> Target:
        """The target; only of a backend that `has_target`."""
        ...

    @property
    def has_target(self) -> bool:
        """False for a backend that answers what is usual for its kind, without costs."""
        ...

    def channel_block(self, channels: int) -> int | None:
        """The block of channels that images of `channels` are cut into; None where they stay plain."""
        ...

    def conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, winograd: bool
    ) -> Sequence[Conv2DLayouts]:
        """The layouts in which a convolution can run, the usual ones first."""
        ...

    def dot_conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, itemsize: int
    ) -> Sequence[Conv2DLayouts]:
        """The same of a convolution of bytes or bfloat16 by dot products; none where its channels make no blocks."""
        ...

    def tile_group(self, conv: Conv2DWorkload, unknown: tuple[bool, bool]) -> tuple[int, int]:
        """Rows and columns of tiles that grids of Winograd convolutions of symbolic sizes are made of."""
        ...

    def transform_cost(self, elements: int) -> float:
        """Cycles of bringing `elements` floats from one layout to another in a kernel of its own."""
        ...

    def padded_channels(self, channels: int, groups: Collection[int]) -> int:
        """The number of channels that zeros should fill `channels` up to."""
        ...

    def groups_to_join(self, conv: Conv2DWorkload) -> int:
        """The number of neighbouring groups of a grouped convolution that should become one; 1 for none."""
        ...

    def dense_block(self, units: int, depth: int, rows: int) -> int:
        """Columns of a panel in which a constant weight [units, depth] is packed."""
        ...

    def dot_block(self, units: int, depth: int, rows: int) -> int:
        """The same for weights of bytes."""
        ...

    def fills_panels(self, rows: int) -> bool:
        """True if a product of so many rows by weights of a few bits gains by a last panel that is filled up."""
        ...

    def blockwise_panel(self, units: int) -> int:
        """Rows of a panel in which weights of a few bits are packed; 0 where they stay plain."""
        ...

    def bitserial_form(self, product: BitserialProduct) -> BitserialForm | None:
        """The way in which a product of few bits is computed from its bits; None where it is one of integers."""
        ...

    def dot_operands(self) -> tuple[str, str] | None:
        """The types of data and weights that the dot product of bytes takes; None where there is none worth using.

        Data of int16 where the instruction multiplies these: two at a time, zero points taken off.
        """
        ...

    def multiplies_pairs(self) -> bool:
        """True if there are instructions that multiply bfloat16 and add to float32."""
        ...

    def pair_product(self, units: int, depth: int, rows: int, terms: int = 1) -> DotShape | None:
        """The shape of a product of bfloat16 by a constant weight [units, depth]; None where float32 is as fast.

        With `terms`, so many of them side by side along the depth stand for one.
        """
        ...

    def half_product(self, units: int, depth: int, rows: int) -> DotShape | None:
        """The same of float16."""
        ...

    def pair_convolution(self, conv: Conv2DWorkload) -> bool:
        """True if a convolution by constant weights is faster in bfloat16 than in float32, rounding included."""
        ...

    def dots_in_pairs(self) -> bool:
        """True if a dot product of bytes is cheaper where sums of two products are known to fit 16 bits."""
        ...

    def ordered_blocks(self, units: int, depth: int, rows: int) -> Sequence[tuple[int, float]]:
        """Columns of panels in which a product is faster in pairs of bytes, the depth of the data in an order of the
        panel, than as dot products of other operands; the fastest first, each with its share of their time.
        """
        ...

    def lookup_cost(self) -> int | None:
        """Vector instructions that look up a vector of bytes in a table of 256; None where tables are not wanted."""
        ...

    def lanes(self) -> int:
        """Elements of 32 bits in a vector."""
        ...

    def fuses_attention(self, rows: int, depth: int, width: int, dtype: str) -> bool:
        """True if an attention of so many rows of queries, each [depth], and values of [width] is one kernel."""
        ...

    def narrows_attention(self, heads: int, rows: int, columns: int, depth: int, width: int, operands: str) -> bool:
        """True if such an attention is faster with operands of a type of 16 bits than in float32, rounding included."""
        ...

    def unit_block(self, hidden: int, gates: int, dots: bool) -> int:
        """Units of a block of packed weights of a recurrent layer of `hidden` units and `gates` gates."""
        ...

    def gathers_operands(self) -> bool:
        """True if products read operands element by element, so that transposing them costs nothing."""
        ...

    def finishes_rows(self) -> bool:
        """True if softmax and normalizations of rows take what follows them elementwise into their kernel."""
        ...

    def fuses_depthwise(self, channels: int, filters: int, height: int, width: int) -> bool:
        """True if a depthwise convolution is computed within the 1x1 one to `filters` that reads it."""
        ...
