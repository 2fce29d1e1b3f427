"""An imported module to a model: the graph passes for one of the executors, then plan, code and linking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.backend import Backend, backend_of
from tilewright.driver.build import BuiltSegments, ModelGraphs, finished
from tilewright.driver.build_parts import build_segments
from tilewright.driver.optimize import optimize
from tilewright.driver.plan import model_manifest
from tilewright.driver.vm.build import Host, bytecode_graphs, needs_machine
from tilewright.driver.vm.placement import states_host
from tilewright.errors import UnsupportedError
from tilewright.records.database import Database
from tilewright.relay.ir.expr import Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.transform.memory.rematerialize import MEMORY_LIMIT
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.simplify.expand_calls import expand_calls
from tilewright.runtime.executor import Executable
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.vm.debug import DebugMachine
from tilewright.runtime.vm.executable import VirtualMachine
from tilewright.support.log import INFO, log
from tilewright.target import Target

#: Why a straight graph of tensor operators for a device runs on the virtual machine.
_TWO_DEVICES = "operators that are marked for the host"

#: What may run a compiled model.
EXECUTORS = ("auto", "graph", "aot", "vm", "debug")


def build_model(
    mod: IRModule,
    target: Target,
    threads: int | None = None,
    executor: str = "auto",
    jobs: int | None = None,
    records: Database | None = None,
) -> Model:
    """Compile a module as imported for `executor`, in `jobs` processes (default: one per processor).

    Raises `UnsupportedError` where that executor cannot run the module.
    """
    graphs = optimized_graphs(mod, target, executor, records)
    built = build_segments(graphs, jobs)
    return finished(built, graphs.manifest(built), graphs.backend, threads)


def optimized_graphs(
    mod: IRModule, target: Target, executor: str = "auto", records: Database | None = None
) -> ModelGraphs:
    """The module after the graph passes of the target's backend, as `executor` runs it.

    Raises `UnsupportedError` where that executor cannot.
    """
    if executor not in EXECUTORS:
        raise UnsupportedError(f"there is no executor {executor!r}; there are: {', '.join(EXECUTORS)}")

    backend = backend_of(target)
    mod = expand_calls(lower_external(backend.offload(mod, run_function)))
    beside = backend.has_own_memory and executor != "debug"
    obstacle = needs_machine(mod) or (_TWO_DEVICES if beside and states_host(mod) else "")
    if obstacle:
        log(INFO, "the virtual machine runs this model, for %s", obstacle)
    if executor in ("graph", "aot"):
        _refuse(obstacle, f'the executor "{executor}" runs straight graphs of tensor operators', 'use "vm" or "auto"')
    if not obstacle and executor not in ("vm", "debug"):
        return _straight_graph(optimize(mod, target, records), backend, executor)
    if MEMORY_LIMIT in mod["main"].attrs:
        _refuse(obstacle or f'the executor "{executor}"', "a memory limit is kept in straight graphs", "leave it out")
    kind = DebugMachine if executor == "debug" else VirtualMachine
    host = _host() if beside and backend.is_here and backend.has_processor_beside else None
    return bytecode_graphs(mod, backend, lambda part: optimize(part, target, records), kind, host)


def _host() -> Host:
    """This machine's processor, beside a device."""
    target = Target("cpu")
    return Host(backend_of(target), lambda part: optimize(part, target))


def run_function(function: Function, target: Target, inputs: Mapping[str, Any]) -> Sequence[Any]:
    """The results of a function, compiled for `target`."""
    return build_model(IRModule.from_expr(function), target).run(inputs)


def _straight_graph(mod: IRModule, backend: Backend, executor: str) -> ModelGraphs:
    """A graph without control flow; for "aot" the object code has the one function that runs it."""
    name = backend.ahead_of_time() if executor == "aot" else Executable.executor

    def manifest(built: BuiltSegments) -> Manifest:
        return replace(model_manifest(built.plans[0], mod["main"], backend, built.constants), executor=name)

    return ModelGraphs(backend, [("main", mod)], manifest, for_c=True)


def _refuse(obstacle: str, what: str, advice: str) -> None:
    """Raise `UnsupportedError` where there is an obstacle."""
    if obstacle:
        raise UnsupportedError(f"{what}; this model needs the virtual machine for {obstacle}: {advice}")
