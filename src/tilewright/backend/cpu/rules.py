"""Rules of processors for graph passes: layouts in blocks of channels, packing, fusion of depthwise pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Self

from tilewright.backend.backend import Backend
from tilewright.backend.cpu.schedule import layout
from tilewright.backend.cpu.schedule.bitserial_choice import bitserial_form
from tilewright.backend.cpu.schedule.channel_padding import padded_channels
from tilewright.backend.cpu.schedule.dense_blockwise_cost import blockwise_panel, takes_matrix_registers
from tilewright.backend.cpu.schedule.fused_depthwise import fuses_depthwise
from tilewright.backend.cpu.schedule.grouped_conv2d import groups_to_join
from tilewright.backend.cpu.schedule.narrow_attention import gains_by_narrow_attention
from tilewright.backend.cpu.schedule.product_spaces import (
    dense_block,
    dot_block,
    half_shape,
    ordered_blocks,
    pair_shape,
)
from tilewright.backend.cpu.schedule.recurrent_cost import unit_block
from tilewright.backend.cpu.schedule.tile_cost import multiplies_tiles
from tilewright.backend.cpu.schedule.winograd_cost import choose_group
from tilewright.codegen.llvm.byte_lookup import lookup_lanes
from tilewright.topi.schedule.workload import BitserialForm, BitserialProduct, Conv2DLayouts, Conv2DWorkload, DotShape

#: Instructions that look up a vector of bytes out of registers: permutations of parts of the table, and one that
#: picks among them.
_LOOKUP = 6


class CpuRules(Backend):
    """The part of `CpuBackend` that graph passes ask (`relay/ir/backend.py`)."""

    def rules(self) -> Self:
        """Itself."""
        return self

    def channel_block(self, channels: int) -> int | None:
        """The widest of 16, 8 and 4 that divides `channels` and fits a vector."""
        return layout.channel_block(channels, self._target)

    def conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, winograd: bool
    ) -> Sequence[Conv2DLayouts]:
        """Blocked and plain, by sums or Winograd; without a target unpriced."""
        return layout.conv2d_layouts(conv, self._target, arriving_block, winograd)

    def dot_conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, itemsize: int
    ) -> Sequence[Conv2DLayouts]:
        """In blocks of vectors, and where there are matrix registers of their rows; priced where there is a choice."""
        return layout.dot_conv2d_layouts(conv, self._target, arriving_block, itemsize)

    def tile_group(self, conv: Conv2DWorkload, unknown: tuple[bool, bool]) -> tuple[int, int]:
        """The group that does best over the sizes that are likely."""
        return choose_group(conv, unknown, self.target)

    def transform_cost(self, elements: int) -> float:
        """Through registers."""
        return layout.transform_cost(elements, self.target)

    def padded_channels(self, channels: int, groups: Collection[int]) -> int:
        """Whole vectors, where that pays."""
        return padded_channels(channels, groups, self.target)

    def groups_to_join(self, conv: Conv2DWorkload) -> int:
        """As many as fill a vector of output channels."""
        block = self.channel_block(conv.out_channels)
        return 1 if conv.depthwise or block is None else groups_to_join(conv, block)

    def dense_block(self, units: int, depth: int, rows: int) -> int:
        """The width whose best configuration costs least."""
        return dense_block(units, depth, rows, self.target)

    def dot_block(self, units: int, depth: int, rows: int) -> int:
        """The same with dot products of bytes."""
        return dot_block(units, depth, rows, self.target)

    def blockwise_panel(self, units: int) -> int:
        """A few vectors, where there are units for them."""
        return blockwise_panel(units, self.target)

    def bitserial_form(self, product: BitserialProduct) -> BitserialForm | None:
        """Popcounts or lookups, where they cost less than products of bytes."""
        return bitserial_form(product, self.target) if self.has_target else None

    def fills_panels(self, rows: int) -> bool:
        """Rows that matrix registers take: they have whole panels."""
        return takes_matrix_registers(rows, self.target)

    def dot_operands(self) -> tuple[str, str] | None:
        """VNNI and the i8mm extension multiply unsigned by signed bytes, NEON's dot products signed by signed; other
        x86-64 16-bit numbers (pmaddwd)."""
        if self.target.architecture == "x86_64" and not self._multiplies_bytes():
            return "int16", "int8"
        if self.target.architecture == "x86_64" or self.target.supports("i8mm"):
            return "uint8", "int8"
        return ("int8", "int8") if self.target.supports("dotprod") else None

    def multiplies_pairs(self) -> bool:
        """AVX512-BF16 or matrix registers for bfloat16."""
        return self.has_target and (bool(self.target.machine.pair_dot_per_cycle) or multiplies_tiles(2, self.target))

    def pair_product(self, units: int, depth: int, rows: int, terms: int = 1) -> DotShape | None:
        """By vectors or matrix registers, whichever costs less."""
        return pair_shape(units, depth, rows, self.target, terms)

    def half_product(self, units: int, depth: int, rows: int) -> DotShape | None:
        """By arithmetic of float16, where there is such."""
        if not self.has_target or self.target.kind != "llvm" or not self.target.half_feature_string:
            return None
        return half_shape(units, depth, rows, self.target)

    def pair_convolution(self, conv: Conv2DWorkload) -> bool:
        """By vectors or matrix registers, beside the best way in float32."""
        return layout.gains_by_bfloat16(conv, self.target)

    def dots_in_pairs(self) -> bool:
        """x86-64 with pmaddubsw and without an instruction for all four."""
        target = self.target
        return target.architecture == "x86_64" and target.supports("ssse3") and not self._multiplies_bytes()

    def ordered_blocks(self, units: int, depth: int, rows: int) -> Sequence[tuple[int, float]]:
        """By cost, beside products of 16-bit numbers."""
        return ordered_blocks(units, depth, rows, self.target) if self.dots_in_pairs() else ()

    def _multiplies_bytes(self) -> bool:
        """True for x86 with an instruction that adds four products of bytes."""
        return self.target.supports("avx512vnni") or self.target.supports("avxvnni")

    def lookup_cost(self) -> int | None:
        """By the instructions that pick bytes out of vectors, else two for each byte: one out and one in."""
        return 2 * self.target.machine.lanes() if lookup_lanes(self.target) is None else _LOOKUP

    def lanes(self) -> int:
        """Of the widest vectors."""
        return self.target.machine.lanes()

    def finishes_rows(self) -> bool:
        """True: `schedule_rows` computes what follows along with each row."""
        return True

    def fuses_attention(self, rows: int, depth: int, width: int, dtype: str) -> bool:
        """True from as many rows on as have multiply-adds with an element of the keys for as long as its copy takes."""
        machine = self.target.machine
        copy = 4 * (1 + machine.write_factor) / machine.read_l2.one
        return rows >= round(copy * machine.fma_per_cycle * machine.lanes())

    def narrows_attention(self, heads: int, rows: int, columns: int, depth: int, width: int, operands: str) -> bool:
        """By cost, on processors with products of the type."""
        if not self.has_target or self.target.kind != "llvm":
            return False
        able = self.multiplies_pairs() if operands == "bfloat16" else bool(self.target.half_feature_string)
        return able and gains_by_narrow_attention(heads, rows, columns, depth, width, operands, self.target)

    def unit_block(self, hidden: int, gates: int, dots: bool) -> int:
        """The narrowest with enough vectors for a step."""
        return unit_block(hidden, gates, dots, self.target)

    def fuses_depthwise(self, channels: int, filters: int, height: int, width: int) -> bool:
        """True if bands of rows and the weights stay in the second-level cache and there are enough bands."""
        return fuses_depthwise(channels, filters, height, width, self._target)
