"""The backend of VTA beside a processor: parts of a graph become programs of VTA, the rest kernels of the processor.

Programs are kernels of an execution plan like any other: their operands and results are in the plan's memory, and what
DRAM holds before a run is among the weights (`vta/network/program.py` runs them).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.backend.backend import Run
from tilewright.backend.cpu.backend import CpuBackend
from tilewright.backend.kernels import CompiledKernels, Task
from tilewright.backend.vta.inspect import STAGES, stage_texts
from tilewright.backend.vta.offload import offload
from tilewright.backend.vta.operators import LAUNCH, program_step
from tilewright.backend.vta.settings import Settings
from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.runtime.link import bundle_objects, split_objects
from tilewright.runtime.plan import ExecutionPlan
from tilewright.target import Target, VtaTarget
from tilewright.topi.schedule.choice import Choice
from tilewright.vta.network.program import encoded_programs, parted, parts_of


class VtaBackend(CpuBackend):
    """VTA with a processor, whose backend it extends by programs."""

    device = "vta"

    def __init__(self, target: Target | None) -> None:
        """For `target`, whose processor is `self.target`."""
        assert isinstance(target, VtaTarget)
        super().__init__(target.processor)
        self._vta = target

    def check(self, measured: bool = False) -> None:
        """Refuse tuning, which is for processors alone."""
        if measured:
            raise UnsupportedError(f"tuning and specializing are for processors and not for {self._vta}")

    def offload(self, mod: IRModule, run: Run) -> IRModule:
        """The module in integers, with calls of programs for its regions."""
        return offload(mod, Settings.of(self._vta), self._on_processor(run))

    def own_stages(self) -> tuple[str, ...]:
        """The stages of `offload` and of programs."""
        return STAGES

    def own_texts(self, mod: IRModule, stage: str, kernel: str | None, run: Run) -> Iterator[str]:
        """The texts of a stage, one a layer."""
        return stage_texts(mod, self._vta, stage, kernel, self._on_processor(run))

    def lowers(self, function: Function) -> bool:
        """False for programs, which have no loops."""
        return program_step(function) is None

    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """The code of kernels: programs as JSON, the others as object code."""
        programs: dict[str, Any] = {}
        choices: dict[str, Any] = {}
        for task in tasks:
            step = program_step(task.function)
            if step is not None:
                op, attrs = step
                plan = json.loads(attrs["plan"])
                programs[task.name] = {"step": op.name.removeprefix("vta."), "plan": plan, "driver": attrs["driver"]}
                choices[task.name] = step_choice(op, plan)
        rest = super().compile([task for task in tasks if task.name not in programs])
        code = bundle_objects([rest.code, encoded_programs(programs)]) if programs else rest.code
        return CompiledKernels(code, rest.workspaces, {**rest.choices, **choices}, rest.seconds)

    def link(
        self,
        kernels: Sequence[CompiledKernels],
        plans: Sequence[ExecutionPlan],
        orders: Sequence[Sequence[int] | None],
    ) -> tuple[bytes, list[ExecutionPlan]]:
        """The run loops of the parts between calls of programs, and the programs."""
        programs: dict[str, Any] = {}
        native = []
        for compiled in kernels:
            objects, found = parted(compiled.code)
            programs |= found
            native += [CompiledKernels(code, compiled.workspaces) for code in objects]
        parts = [part for plan in plans for part in parts_of(plan, programs) if isinstance(part, ExecutionPlan)]
        code, _ = super().link(native, parts, [None] * len(parts))
        return bundle_objects([*split_objects(code), encoded_programs(programs)]), list(plans)

    def ahead_of_time(self) -> str:
        """Refuse: programs are not called from C."""
        raise UnsupportedError(f'the executor "aot" runs models as one C function, which {self._vta} has none of')

    def facts(self) -> dict[str, Any]:
        """The processor's, with the accelerator's target."""
        return {**super().facts(), "target": str(self._vta)}

    def _on_processor(self, run: Run) -> Any:
        return lambda function, inputs: run(function, self.target, inputs)


def step_choice(op: Op, plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """The choice of a step's kernel; of a launch what its program consists of."""
    if op is not LAUNCH:
        return Choice(op.name).to_json()
    return Choice("vta", (("layers", len(plan["layers"])), ("instructions", plan["program"][1]))).to_json()
