"""Processors: layouts in blocks of a vector's channels, the templates of `backend/cpu/schedule`, LLVM, run loops."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright import te
from tilewright.backend.backend import Backend
from tilewright.backend.cpu.copy_kernel import copy_kernel
from tilewright.backend.cpu.run_loop import build_run_loop
from tilewright.backend.cpu.schedule import layout
from tilewright.backend.cpu.schedule.channel_padding import padded_channels
from tilewright.backend.cpu.schedule.choice import choice_of
from tilewright.backend.cpu.schedule.dispatch import schedule, space_of
from tilewright.backend.cpu.schedule.fused_depthwise import fuses_depthwise
from tilewright.backend.cpu.schedule.grouped_conv2d import groups_to_join
from tilewright.backend.cpu.schedule.product_spaces import dense_block, dot_block
from tilewright.backend.cpu.schedule.recurrent_cost import unit_block
from tilewright.backend.cpu.schedule.task_key import task_key
from tilewright.backend.cpu.schedule.winograd_cost import choose_group
from tilewright.backend.kernels import CompiledKernels, Task, Workspace
from tilewright.backend.lower import lower_task
from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.codegen.native.call import call_text
from tilewright.codegen.native.contract import with_contract
from tilewright.codegen.native.pool import supported_machines
from tilewright.codegen.native.pool_code import compile_text, pool_code
from tilewright.codegen.size_plan import size_plan
from tilewright.errors import TargetError, UnsupportedError
from tilewright.records.entry import TaskKey
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.passes import PIPELINE
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.c_source import CModel
from tilewright.runtime.cpu.ahead_of_time import AheadOfTime
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.link import bundle_objects, split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.native import PoolCode, pool_key
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.vm.c_program import program_model
from tilewright.tir.stmt import PrimFunc
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.config import Config
from tilewright.topi.schedule.sketch.config import has_sketch, is_sketch, sketch_config, sketch_schedule
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DLayouts, Conv2DWorkload


class CpuBackend(Backend):
    """Any processor that LLVM makes code for."""

    def check(self, measured: bool = False) -> None:
        """Another machine's code is made here where there is a worker pool for it, and run there."""
        if self.is_here:
            return
        if measured:
            raise TargetError(
                f"tuning and specializing run the model here, and this machine cannot run code for {self.target}"
            )
        if self.target.architecture not in supported_machines():
            raise TargetError(
                f"models are compiled for {', '.join(supported_machines())}; for {self.target} write C source "
                "(`tilewright compile -o model.c`), or build single functions with tilewright.build"
            )

    @property
    def is_here(self) -> bool:
        """True for this machine's processor."""
        return self.target.is_host

    def pipeline(self) -> tuple[GraphPass, ...]:
        """All passes, those that choose layouts and pack weights among them."""
        return PIPELINE

    # -------------------------------------------------------------------------------------------------------- layouts
    def rules(self) -> CpuBackend:
        """Itself."""
        return self

    def channel_block(self, channels: int) -> int | None:
        """The widest of 16, 8 and 4 that divides `channels` and fits a vector."""
        return layout.channel_block(channels, self._target)

    def conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, filtered: bool
    ) -> Sequence[Conv2DLayouts]:
        """Blocked and plain, by sums or Winograd; without a target unpriced."""
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
        if self.target.architecture == "x86_64" or self.target.supports("i8mm"):
            return "uint8", "int8"
        return ("int8", "int8") if self.target.supports("dotprod") else None

    def dots_in_pairs(self) -> bool:
        """x86-64 with pmaddubsw and without an instruction for all four."""
        target = self.target
        one_instruction = target.supports("avx512vnni") or target.supports("avxvnni")
        return target.architecture == "x86_64" and target.supports("ssse3") and not one_instruction

    def lanes(self) -> int:
        """Of the widest vectors."""
        return self.target.machine.lanes()

    def attention_rows(self) -> int:
        """Rows whose multiply-adds with an element of the keys take as long as the copy of it."""
        machine = self.target.machine
        copy = 4 * (1 + machine.write_factor) / machine.read_l2.one
        return round(copy * machine.fma_per_cycle * machine.lanes())

    def unit_block(self, hidden: int, gates: int, dots: bool) -> int:
        """The narrowest with enough vectors for a step."""
        return unit_block(hidden, gates, dots, self.target)

    def fuses_depthwise(self, channels: int, filters: int, height: int, width: int) -> bool:
        """True if bands of rows and the weights stay in the second-level cache and there are enough bands."""
        return fuses_depthwise(channels, filters, height, width, self._target)

    # ------------------------------------------------------------------------------------------------------ schedules
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

    # ----------------------------------------------------------------------------------------------------------- code
    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """One object of the tasks' kernels."""
        start = time.perf_counter()
        funcs = [lower_task(task.function, task.name, self) for task in tasks]
        return self._compiled(funcs, time.perf_counter() - start)

    def link(
        self,
        kernels: Sequence[CompiledKernels],
        plans: Sequence[ExecutionPlan],
        orders: Sequence[Sequence[int] | None],
    ) -> tuple[bytes, list[ExecutionPlan]]:
        """The kernels, a run loop for each plan, kernels that copy, and functions that compute symbolic sizes."""
        kinds = {name: workspace.kind for compiled in kernels for name, workspace in compiled.workspaces.items()}
        copies = dict.fromkeys(call.name for plan in plans for call in plan.kernels if call.is_copy)
        funcs = [*map(copy_kernel, copies), *[build_run_loop(plan, kinds) for plan in plans]]
        linked = list(plans)
        for index, (plan, order) in enumerate(zip(plans, orders, strict=True)):
            if order is not None and plan.dynamic is not None:
                planned = size_plan(plan, order)
                linked[index] = replace(plan, checks=planned.messages)
                funcs.append(planned.function)
        return bundle_objects([*[compiled.code for compiled in kernels], self._compiled(funcs).code]), linked

    def _compiled(self, funcs: Sequence[PrimFunc], lower_seconds: float = 0.0) -> CompiledKernels:
        """One object (or text) of lowered functions."""
        start = time.perf_counter()
        code, emitting = self.code(funcs)
        seconds = {"lower": lower_seconds, "emit": emitting, "llvm": time.perf_counter() - start - emitting}
        workspaces = {f.name: Workspace.of(f) for f in funcs}
        choices = {f.name: f.attrs["choice"].to_json() for f in funcs if "choice" in f.attrs}
        return CompiledKernels(code, workspaces, choices, seconds)

    def code(self, funcs: Sequence[PrimFunc]) -> tuple[bytes, float]:
        """One ELF object of lowered functions, and the seconds that went by until LLVM had their text."""
        start = time.perf_counter()
        text = emit_module(funcs, self.target).text
        seconds = time.perf_counter() - start
        return compile_object(text, self.target), seconds

    def ahead_of_time(self) -> str:
        """One C function, by which an exported library is called as well."""
        return AheadOfTime.executor

    def facts(self) -> dict[str, Any]:
        """Architecture and features, without which the code does not run."""
        return {**super().facts(), "arch": self.target.architecture, "cpu_features": tuple(self.target.features)}

    def finish(self, code: bytes, manifest: Manifest, weights_bytes: int) -> bytes:
        """The function of the executor "aot", and the contract with the manifest."""
        if manifest.executor == AheadOfTime.executor:
            function = compile_text(call_text(CInterface.of(manifest)), self.target.architecture)
            code = bundle_objects([*split_objects(code), function])
        return with_contract(code, manifest, weights_bytes)

    def load(self, manifest: Manifest, code: bytes, weights: Any, threads: int | None = None) -> Model:
        """For another machine a model that can be saved and exported, with the native runtime that it needs there."""
        if self.is_here:
            return super().load(manifest, code, weights, threads)
        architecture = self.target.architecture
        pool = PoolCode(pool_key(architecture), pool_code(architecture))
        return ForeignModel(code, manifest, weights, pool, _c_model(manifest))


def _c_model(manifest: Manifest) -> CModel | None:
    """The way in which C programs call a program of the virtual machine.

    None for a straight graph, which needs none, and for a program that cannot be called, which exporting then says.
    """
    try:
        return None if manifest.is_native else program_model(manifest, alone=False)
    except UnsupportedError:
        return None
