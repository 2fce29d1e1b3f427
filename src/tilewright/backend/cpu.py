"""What processors answer: layouts in blocks of a vector's channels, the templates of `topi/schedule/cpu`, LLVM or C."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.autotvm.record.entry import TaskKey
from tilewright.backend.backend import Backend
from tilewright.codegen.kernel_code import object_code
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.cpu import layout
from tilewright.topi.schedule.cpu.channel_padding import padded_channels
from tilewright.topi.schedule.cpu.choice import Choice, choice_of
from tilewright.topi.schedule.cpu.dispatch import schedule, space_of
from tilewright.topi.schedule.cpu.fused_depthwise import fuses_depthwise
from tilewright.topi.schedule.cpu.grouped_conv2d import groups_to_join
from tilewright.topi.schedule.cpu.product_spaces import dense_block, dot_block
from tilewright.topi.schedule.cpu.recurrent_cost import unit_block
from tilewright.topi.schedule.cpu.task_key import task_key
from tilewright.topi.schedule.cpu.winograd_cost import choose_group
from tilewright.topi.schedule.sketch.config import has_sketch, is_sketch, sketch_config, sketch_schedule
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DLayouts, Conv2DWorkload


class CpuBackend(Backend):
    """Any processor that LLVM or a C compiler makes code for."""

    def channel_block(self, channels: int) -> int | None:
        """The widest of 16, 8 and 4 that divides `channels` and fits a vector."""
        return layout.channel_block(channels, self._target)

    def conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, filtered: bool
    ) -> Sequence[Conv2DLayouts]:
        """Blocked and plain, by sums or minimal filtering; without a target unpriced."""
        return layout.conv2d_layouts(conv, self._target, arriving_block, filtered)

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

    def dot_operands(self) -> tuple[str, str] | None:
        """x86-64 and the i8mm extension multiply unsigned by signed bytes, NEON's dot products signed by signed."""
        if self.target.kind != "llvm":
            return None
        if self.target.architecture == "x86_64" or self.target.supports("i8mm"):
            return "uint8", "int8"
        return ("int8", "int8") if self.target.supports("dotprod") else None

    def dots_in_pairs(self) -> bool:
        """x86-64 with pmaddubsw and without an instruction for all four."""
        target = self.target
        one_instruction = target.supports("avx512vnni") or target.supports("avxvnni")
        return target.architecture == "x86_64" and target.supports("ssse3") and not one_instruction

    def unit_block(self, hidden: int, gates: int, dots: bool) -> int:
        """The narrowest that gives a step enough vectors."""
        return unit_block(hidden, gates, dots, self.target)

    def fuses_depthwise(self, channels: int, filters: int, height: int, width: int) -> bool:
        """Where bands of rows and the weights stay in the second-level cache and there are enough bands."""
        return fuses_depthwise(channels, filters, height, width, self._target)

    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """By the template of the anchor's tag, or by the sketch that a configuration is of."""
        if config is not None and is_sketch(config):
            return sketch_schedule(outs, self.target, config)
        return schedule(outs, self.target, config)

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """Of the template of the anchor's tag."""
        return space_of(outs, self.target)

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """Template, workload and data types."""
        return task_key(outs, self.target)

    def has_sketch(self, outs: list[te.Tensor]) -> bool:
        """Of what is made of plain expressions alone."""
        return has_sketch(outs, self.target)

    def sketch_config(self, outs: list[te.Tensor], values: Mapping[str, Any]) -> Config:
        """By the numbers of the values."""
        return sketch_config(outs, self.target, values)

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """Template, configuration and expected time."""
        return choice_of(outs, self.target, config)

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The pipeline of processors."""
        return te.lower_stages(s, args, name, target=self.target)

    def object_code(self, funcs: Sequence[PrimFunc]) -> tuple[bytes, float]:
        """An ELF object by LLVM, or for the target "c" by a C compiler."""
        return object_code(funcs, self.target)
