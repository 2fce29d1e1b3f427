"""Processors: code by LLVM, run loops that make the calls of plans, and what loads them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.backend.cpu.copy_kernel import copy_kernel
from tilewright.backend.cpu.functions import CpuFunctions
from tilewright.backend.cpu.rules import CpuRules
from tilewright.backend.cpu.run_loop import build_run_loop
from tilewright.backend.cpu.schedules import CpuSchedules
from tilewright.backend.kernels import CompiledKernels, Task, Workspace
from tilewright.backend.lower import lower_task
from tilewright.codegen.native.call import call_text
from tilewright.codegen.native.contract import with_contract
from tilewright.codegen.native.pool import supported_machines
from tilewright.codegen.native.pool_code import compile_text, pool_code
from tilewright.codegen.size_plan import size_plan
from tilewright.errors import TargetError
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.passes import PIPELINE
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.cpu.ahead_of_time import AheadOfTime
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.link import bundle_objects, split_objects
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.native import Kind, PoolCode, pool_key
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.vm.c_program import callable_program
from tilewright.tir.stmt import PrimFunc


class CpuBackend(CpuRules, CpuSchedules, CpuFunctions):
    """Any processor that LLVM makes code for."""

    def check(self, measured: bool = False) -> None:
        """Another machine's code is made here, and run there."""
        if measured and not self.is_here:
            raise TargetError(
                f"tuning and specializing run the model here, and this machine cannot run code for {self.target}"
            )

    def check_machine(self) -> None:
        """Raise `TargetError` for a processor that the worker pool is not written for."""
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

    # ----------------------------------------------------------------------------------------------------------- code
    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """One object of the tasks' kernels."""
        self.check_machine()
        start = time.perf_counter()
        funcs = [lower_task(task.function, task.name, self) for task in tasks]
        if self.lowered is not None:
            self.lowered |= {func.name: func for func in funcs}
        return self._compiled(funcs, time.perf_counter() - start)

    def link(
        self,
        kernels: Sequence[CompiledKernels],
        plans: Sequence[ExecutionPlan],
        orders: Sequence[Sequence[int] | None],
    ) -> tuple[bytes, list[ExecutionPlan]]:
        """The kernels, a run loop for each plan, kernels that copy, and functions that compute symbolic sizes."""
        kinds = {
            name: self.division(workspace.kind)
            for compiled in kernels
            for name, workspace in compiled.workspaces.items()
        }
        copies = dict.fromkeys(call.name for plan in plans for call in plan.kernels if call.is_copy)
        funcs = [*map(copy_kernel, copies), *[build_run_loop(plan, kinds) for plan in plans]]
        linked = list(plans)
        for index, (plan, order) in enumerate(zip(plans, orders, strict=True)):
            if order is not None and plan.dynamic is not None:
                planned = size_plan(plan, order)
                linked[index] = replace(plan, checks=planned.messages)
                funcs.append(planned.function)
        return bundle_objects([*[compiled.code for compiled in kernels], self._compiled(funcs).code]), linked

    def division(self, kind: Kind) -> Kind:
        """The way the run loop's workers share a kernel of this kind."""
        return kind

    def _compiled(self, funcs: Sequence[PrimFunc], lower_seconds: float = 0.0) -> CompiledKernels:
        """One object (or text) of lowered functions."""
        start = time.perf_counter()
        code, emitting = self.code(funcs)
        seconds = {"lower": lower_seconds, "emit": emitting, "llvm": time.perf_counter() - start - emitting}
        workspaces = {f.name: Workspace.of(f) for f in funcs}
        choices = {f.name: f.attrs["choice"].to_json() for f in funcs if "choice" in f.attrs}
        return CompiledKernels(code, workspaces, choices, seconds)

    def code(self, funcs: Sequence[PrimFunc]) -> tuple[bytes, float]:
        """One ELF object of lowered functions, and the seconds that went by until their text was written."""
        start = time.perf_counter()
        text = self.emit(funcs).text
        seconds = time.perf_counter() - start
        return self.assemble(text), seconds

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
        return ForeignModel(code, manifest, weights, pool, callable_program(manifest))
