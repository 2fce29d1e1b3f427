"""An imported module to a model for one of the executors: the passes, then kernels, memory plan and run loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tilewright.backend import backend_of
from tilewright.driver.build import Keep, build_executable
from tilewright.driver.optimize import optimize
from tilewright.driver.vm.build import build_virtual_machine, needs_machine
from tilewright.errors import UnsupportedError
from tilewright.records.database import Database
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.runtime.model import Model
from tilewright.runtime.vm.debug import DebugMachine
from tilewright.runtime.vm.executable import VirtualMachine
from tilewright.support.log import INFO, log
from tilewright.target import Target

#: What may run a compiled model.
EXECUTORS = ("auto", "graph", "aot", "vm", "debug")


def build_model(
    mod: IRModule,
    target: Target,
    threads: int | None = None,
    executor: str = "auto",
    jobs: int | None = None,
    records: Database | None = None,
    keep: Keep | None = None,
) -> Model:
    """Compile a module as imported for `executor`, in `jobs` processes (default: one per processor).

    `keep` may load the model from where it writes it (`driver/build.py`). Raises `UnsupportedError` where that executor
    cannot run the module.
    """
    if executor not in EXECUTORS:
        raise UnsupportedError(f"there is no executor {executor!r}; there are: {', '.join(EXECUTORS)}")

    def run(function: Function, target: Target, inputs: Mapping[str, Any]) -> Sequence[Any]:
        return build_model(IRModule.from_expr(function), target).run(inputs)

    mod, target = backend_of(target).offload(mod, run)
    backend, mod = backend_of(target), expand_calls(lower_external(mod))
    obstacle = needs_machine(mod)
    if obstacle:
        log(INFO, "the virtual machine runs this model, for %s", obstacle)
    if executor in ("graph", "aot"):
        _refuse(obstacle, f'the executor "{executor}" runs straight graphs of tensor operators', 'use "vm" or "auto"')
    if not obstacle and executor not in ("vm", "debug"):
        ahead_of_time = executor == "aot"
        return build_executable(optimize(mod, target, records), backend, threads, jobs, ahead_of_time, keep)
    kind = DebugMachine if executor == "debug" else VirtualMachine
    return build_virtual_machine(mod, backend, partial(optimize, records=records), threads, jobs, kind, keep)


def _refuse(obstacle: str, what: str, advice: str) -> None:
    """Raise `UnsupportedError` where there is an obstacle."""
    if obstacle:
        raise UnsupportedError(f"{what}; this model needs the virtual machine for {obstacle}: {advice}")
