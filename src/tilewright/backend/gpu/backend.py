"""Devices of thread blocks: OpenCL, CUDA, Metal and WebGPU; kernels by the templates of `backend/gpu/schedule`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright import te
from tilewright.backend.gpu.architectures import ArchitectureKernels, side_by_side
from tilewright.backend.gpu.functions import GpuFunctions
from tilewright.backend.gpu.schedule.attention_cost import has_attention_kernel
from tilewright.backend.gpu.schedule.dispatch import choice_of, schedule, space_of, template_of
from tilewright.backend.gpu.schedule.layout import conv2d_ways
from tilewright.backend.gpu.schedule.machine import machine_of
from tilewright.backend.kernels import CompiledKernels, Task, Workspace
from tilewright.backend.lower import lower_task
from tilewright.backend.workload_key import workload_key
from tilewright.codegen.build_device import device_programs, emit_programs
from tilewright.errors import EnvironmentError_, TargetError
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.fuse.fuse_attention import fuse_attention
from tilewright.relay.transform.fuse.split_args import split_args
from tilewright.relay.transform.layout.alter_layout import alter_layout
from tilewright.relay.transform.layout.channels_last import channels_last
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.passes import PLAIN_PIPELINE
from tilewright.relay.transform.quantize.half_weights import half_weights
from tilewright.relay.transform.quantize.int8_products import int8_products
from tilewright.relay.transform.quantize.whole_rows import whole_rows
from tilewright.relay.transform.simplify.fold_constant import fold_constant
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.gpu.cuda import CudaDevice
from tilewright.runtime.gpu.devices import open_device
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.tir.expr import Var
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_loose_loops import bind_loose_loops
from tilewright.tir.transform.split_host_device import DeviceProgram
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.space import ConfigSpace
from tilewright.topi.schedule.workload import Conv2DLayouts, Conv2DWorkload

#: Tensors that a kernel of WebGPU joins: with those of a concatenation fused into it, and the result, they are the ten
#: arrays that Chromium has a kernel take (maxStorageBuffersPerShaderStage).
_MOST_JOINED = 5


class GpuBackend(GpuFunctions):
    """A device that runs kernels of thread blocks, with a memory of its own."""

    device = "gpu"
    alignment = 256
    part_alignment = alignment  # kernels get views of the arena
    has_own_memory = True

    @property
    def has_processor_beside(self) -> bool:  # type: ignore[override]
        """False for WebGPU: the host of a page is JavaScript."""
        return self.target.kind != "webgpu"

    def check(self, measured: bool = False) -> None:
        """Tuning and specializing need the device; compiling needs none."""
        if measured and not self.is_here:
            raise TargetError(
                f"tuning and specializing run the model here, and this machine has no device {self.target}"
            )

    @property
    def is_here(self) -> bool:
        """True if this machine has a device of the kind."""
        return not self.obstacle()

    def obstacle(self) -> str:
        """The reason why this machine runs no code for the target."""
        try:
            api = open_device(self.target.kind, bool(self.target.emulate), self.target.ordinal)
        except (EnvironmentError_, TargetError) as error:
            return str(error)
        newer = [arch.replace("sm_", "compute_") for arch in self.target.architectures]
        if not isinstance(api, CudaDevice) or api.fitting(newer):
            return ""
        return f"{api.name} is of {api.arch}, for which code for {', '.join(self.target.architectures)} is too new"

    def pipeline(self) -> tuple[GraphPass, ...]:
        """Plain layouts, or channels last for tensor cores; 16-bit floats stay what they are in memory."""
        passes = [one for one in PLAIN_PIPELINE if one.name != "compute_in_float32"]
        before = next(i for i, one in enumerate(passes) if one.name == "dead_code")
        passes[before:before] = [
            GraphPass("fuse_attention", 3, "", fuse_attention),
            GraphPass("alter_layout", 3, "AlterOpLayout", alter_layout),
            GraphPass("fold_packed_weights", 2, "", fold_constant),
        ]
        after = next(i for i, one in enumerate(passes) if one.name == "fold_scale_axis") + 1
        if self.target.kind == "cuda":
            passes.insert(after, GraphPass("channels_last", 3, "", channels_last))
        passes.insert(after, GraphPass("int8_products", 3, "", _int8_products))
        if self.target.kind == "webgpu":
            joins = next(i for i, one in enumerate(passes) if one.name == "split_args")
            passes[joins] = replace(passes[joins], function=partial(split_args, max_function_args=_MOST_JOINED))
            passes.insert(joins, GraphPass("half_weights", 3, "", half_weights))
        return tuple(passes)

    def gathers_operands(self) -> bool:
        """True: tiles of operands are brought to shared memory from wherever their elements are."""
        return True

    def finishes_rows(self) -> bool:
        """True: a block has whole rows, and stores them once they are done."""
        return True

    def channel_block(self, channels: int) -> int | None:
        """None: images stay plain."""
        return None

    def conv2d_layouts(
        self, conv: Conv2DWorkload, arriving_block: int | None, winograd: bool
    ) -> Sequence[Conv2DLayouts]:
        """Plain images, by Winograd where that is expected to take less time."""
        return conv2d_ways(conv, self.target, winograd)

    def tile_group(self, conv: Conv2DWorkload, unknown: tuple[bool, bool]) -> tuple[int, int]:
        """Single tiles."""
        return 1, 1

    def fuses_attention(self, rows: int, depth: int, width: int, dtype: str) -> bool:
        """True where a block has room for rows and keys of such lengths."""
        return has_attention_kernel(depth, width, dtype, self.target)

    # ------------------------------------------------------------------------------------------------------ schedules
    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """By the template of the anchor."""
        return schedule(outs, self.target, config)

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """Of the template of the anchor."""
        return space_of(outs, self.target)

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """Of the template of the anchor."""
        found = template_of(outs, self.target)
        return None if found is None else workload_key(*found, outs)

    def seconds(self, cycles: float) -> float:
        """By the figures of a GPU of the target's architecture."""
        return machine_of(self.target).seconds(cycles)

    def operator_seconds(self, operations: float, nbytes: float, alone: bool) -> float:
        """By the arithmetic that loops reach, or the memory's rate, and a launch."""
        machine = machine_of(self.target)
        bound = max(operations / (machine.peak_float32 * machine.fma_share), nbytes / machine.dram_bytes)
        return bound + machine.launch * alone

    def copy_seconds(self, nbytes: float) -> float:
        """By the link to the host."""
        machine = machine_of(self.target)
        return machine.link_latency + nbytes / machine.link_bytes

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """Template, configuration and expected time."""
        return choice_of(outs, self.target, config)

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The pipeline of devices, with threads for what the schedule left without."""

        def after(stage: str, func: PrimFunc) -> PrimFunc:
            return bind_loose_loops(func) if stage == "schedule_to_tir" else func

        return te.lower_stages(s, args, name, target=self.target, after=after)

    # ----------------------------------------------------------------------------------------------------------- code
    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """The text of the tasks' kernels for each architecture, and for CUDA machine code where NVRTC is here."""
        return side_by_side([type(self)(target)._compiled(tasks) for target in self.target.each()])

    def compile_texts(self, tasks: Sequence[Task]) -> CompiledKernels:
        """The same without machine code."""
        made = [type(self)(target)._compiled(tasks) for target in self.target.each()]
        return side_by_side(made, with_machine_code=False)

    def _compiled(self, tasks: Sequence[Task]) -> ArchitectureKernels:
        """The text of the tasks' kernels for the one architecture of the target."""
        start, target = time.perf_counter(), self.target
        funcs = [lower_task(task.function, task.name, self) for task in tasks]
        lowered = time.perf_counter()
        programs = device_programs(funcs, target)
        source, functions = emit_programs(programs, target)
        code = DeviceCode(target.kind, bool(target.emulate), source, functions, arch=target.arch)
        seconds = {"lower": lowered - start, "emit": time.perf_counter() - lowered}
        workspaces = {program.func.name: _workspace(program, self.alignment) for program in programs}
        choices = {func.name: func.attrs["choice"].to_json() for func in funcs}
        return ArchitectureKernels(code, workspaces, choices, seconds)

    def load(self, manifest: Manifest, code: bytes, weights: Any, threads: int | None = None) -> Model:
        """On a machine without the device a model that can be saved."""
        if self.is_here:
            return super().load(manifest, code, weights, threads)
        return ForeignModel(code, manifest, weights)


def _int8_products(mod: IRModule) -> IRModule:
    """Products of bytes as such, of which tensor cores do twice as many, once their weights are known."""
    return whole_rows(int8_products(fold_constant(mod)))


def _workspace(program: DeviceProgram, alignment: int) -> Workspace:
    """Memory of the temporaries between a function's kernels."""
    total: Any = 0
    for buffer in program.temporaries:
        (elements,) = buffer.shape
        nbytes = elements * buffer.dtype.itemsize
        total = total + (nbytes + (alignment - 1)) // alignment * alignment
    shared = total if isinstance(total, int) else getattr(total, "value", total)
    return Workspace(shared, 0, tuple(p for p in program.func.params if isinstance(p, Var)))
