"""VTA beside a board's processor: the kernels of the processor as C99, and the steps of programs as a driver in C.

What the graph becomes is what `backend/vta/backend.py` makes of it; what the processor computes is as on a board alone
(`backend/board`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilewright.backend.backend import Backend, Run
from tilewright.backend.board.backend import BoardBackend
from tilewright.backend.kernels import CompiledKernels, Task
from tilewright.backend.vta.backend import step_choice
from tilewright.backend.vta.c_driver import driver_text, step_text
from tilewright.backend.vta.offload import offload
from tilewright.backend.vta.operators import program_step
from tilewright.backend.vta.settings import Settings
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.link import bundle_objects, split_objects
from tilewright.runtime.plan import ExecutionPlan
from tilewright.target import Target, VtaTarget
from tilewright.vta.dram import largest_element
from tilewright.vta.isa import Isa


class VtaBoardBackend(BoardBackend):
    """A board's processor with VTA."""

    def __init__(self, target: Target | None) -> None:
        """For `target`, whose processor is `self.target`."""
        assert isinstance(target, VtaTarget)
        super().__init__(target.processor)
        self._vta, self._settings = target, Settings.of(target)
        # Addresses count whole elements from what registers say. More than a cache line, so that constants are aligned
        # too: up to that a board's are not.
        self.alignment = max(2 * Backend.alignment, largest_element(Isa(self._settings.config)))  # type: ignore[misc]

    def offload(self, mod: IRModule, run: Run) -> IRModule:
        """The module in integers, with the steps of programs for its regions; functions are run on this machine."""
        return offload(mod, self._settings, lambda function, inputs: run(function, Target("cpu"), inputs))

    def lowers(self, function: Function) -> bool:
        """False for steps of programs, which have no loops."""
        return program_step(function) is None

    def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
        """The text of kernels."""
        texts, choices, rest = [], {}, []
        for task in tasks:
            step = program_step(task.function)
            if step is None:
                rest.append(task)
                continue
            op, attrs = step
            plan = {**json.loads(attrs["plan"]), "operands": len(task.function.params)}
            texts.append(step_text(task.name, op.name.removeprefix("vta."), plan))
            choices[task.name] = step_choice(op, plan)
        compiled = super().compile(rest)
        text = compiled.code + "".join(texts).encode()
        return replace(compiled, code=text, choices={**compiled.choices, **choices})

    def link(
        self,
        kernels: Sequence[CompiledKernels],
        plans: Sequence[ExecutionPlan],
        orders: Sequence[Sequence[int] | None],
    ) -> tuple[bytes, list[ExecutionPlan]]:
        """The driver, the kernels, and a run loop for each plan."""
        code, linked = super().link(kernels, plans, orders)
        return bundle_objects([driver_text(self._settings.config).encode(), *split_objects(code)]), linked

    def facts(self) -> dict[str, Any]:
        """The processor's, with the accelerator's target."""
        return {**super().facts(), "target": str(self._vta)}
