"""Fused modules to a model: memory planned, distinct kernels compiled in parallel, their calls linked.

plan = plan_segments([("main", mod)], backend)
built = compile_segments(plan, backend)
model = finished(built, manifest, backend, threads, keep)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.backend import Backend
from tilewright.backend.kernels import CompiledKernels, Task
from tilewright.driver.plan import Kernels, execution_plan, unique_constants
from tilewright.relay.ir.expr import Call, Constant, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import structural_hash
from tilewright.relay.ir.symbolic import close_dims, size_vars
from tilewright.relay.ir.type import TensorType, Type, tensor_types, walk_type
from tilewright.relay.transform.fuse.fuse_ops import fused_name
from tilewright.relay.transform.memory.in_place import update_in_place
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, plan_memory
from tilewright.relay.transform.memory.rematerialize import MEMORY_LIMIT, rematerialize
from tilewright.runtime.artifact import weights_bytes
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.model import Model
from tilewright.runtime.plan import ExecutionPlan
from tilewright.support import trace
from tilewright.support.memory_limit import require_memory_for
from tilewright.support.processes import fork_map
from tilewright.tir.size_hint import size_hint

#: Writes the manifest, code and weights of a model somewhere and loads it from there; None where it does not.
Keep = Callable[[Manifest, bytes, Sequence[Any]], Model | None]

#: Kernels compiled into one object: enough to share the fixed costs, few enough to balance the processes.
_KERNELS_PER_OBJECT = 8


def extract_tasks(calls: Iterable[Call]) -> tuple[list[Task], dict[Call, str]]:
    """The distinct functions among the fused calls (in dimensions of their own), and the kernel's name of each call."""
    tasks: dict[str, Task] = {}
    data: dict[str, dict[int, None]] = {}
    names: dict[Call, str] = {}
    used: dict[str, int] = {}
    for call in calls:
        assert isinstance(call.op, Function)
        function, _ = close_dims(call.op)
        key = structural_hash(function)
        if key not in tasks:
            stem = fused_name(function)
            used[stem] = used.get(stem, 0) + 1
            tasks[key] = Task(stem if used[stem] == 1 else f"{stem}_{used[stem]}", function)
        names[call] = tasks[key].name
        data.setdefault(key, {}).update(dict.fromkeys(_data_inputs(call)))
    return [replace(task, data=tuple(sorted(data[key]))) for key, task in tasks.items()], names


def _data_inputs(call: Call) -> list[int]:
    """The numbers of the tensors among a call's arguments that are no constants."""
    tensors = [arg for arg in call.args for _ in tensor_types(arg.checked_type)]
    return [number for number, arg in enumerate(tensors) if not isinstance(arg, Constant)]


@dataclass(frozen=True)
class ModelGraphs:
    """A model after the graph passes: straight graphs of fused calls, and the manifest of what they become.

    `constants` are those that only bytecode reads; `for_c` as in `compile_segments`; `on_host` the numbers of segments
    that run on the host beside a device. `runs_bytecode` is True where the virtual machine runs the segments.
    """

    backend: Backend
    segments: Sequence[tuple[str, IRModule]]
    manifest: Callable[[BuiltSegments], Manifest]
    constants: Sequence[Constant] = ()
    for_c: bool = False
    on_host: frozenset[int] = frozenset()
    runs_bytecode: bool = False


@dataclass(frozen=True)
class PlannedSegments:
    """Straight graphs of fused calls with their memory: each by the name of its entry, and their distinct kernels."""

    modules: Sequence[tuple[str, IRModule]]
    memories: list[MemoryPlan]
    tasks: list[Task]
    names: dict[Call, str]


@dataclass(frozen=True)
class BuiltSegments:
    """Code of several segments, the plan of each, and the constants that they share."""

    code: bytes
    plans: list[ExecutionPlan]
    constants: dict[Constant, int]
    memories: Sequence[MemoryPlan] = ()


def finished(
    built: BuiltSegments, manifest: Manifest, backend: Backend, threads: int | None, keep: Keep | None = None
) -> Model:
    """The model, ready to run; `keep` is tried first, so that its weights need not be copied."""
    weights = [constant.data for constant in built.constants]
    code = backend.finish(built.code, manifest, weights_bytes(manifest, weights))
    kept = keep(manifest, code, weights) if keep is not None and backend.is_here else None
    if kept is not None:
        return kept
    with trace.span("link"):
        return backend.load(manifest, code, weights, threads)


def memory_plan(mod: IRModule, backend: Backend) -> MemoryPlan:
    """The memory plan of a module after the graph passes, in the alignment of a backend's device."""
    return plan_memory(mod, backend.alignment, backend.part_alignment)


def plan_segments(modules: Sequence[tuple[str, IRModule]], backend: Backend) -> PlannedSegments:
    """Plan the memory of the `main` of several modules, each with the name of its entry, and share equal kernels."""
    with trace.span("plan memory"):
        modules = [(name, update_in_place(mod)) for name, mod in modules]
        memories = [memory_plan(mod, backend) for _, mod in modules]
    for (name, mod), memory in zip(modules, memories, strict=True):
        if backend.is_here:  # another machine may be larger
            _require_memory(name, mod["main"], memory)
    calls = [call for memory in memories for call in memory.order]
    tasks, names = extract_tasks(calls)
    trace.count("kernels", len(tasks))
    trace.count("kernel calls", len(calls))
    return PlannedSegments(modules, memories, tasks, names)


def compile_segments(
    planned: PlannedSegments,
    backend: Backend,
    jobs: int | None = None,
    more: Sequence[Constant] = (),
    for_c: bool = False,
    offsets: dict[Constant, int] | None = None,
) -> BuiltSegments:
    """Compile the kernels in `jobs` processes (default: one per processor), and link the calls of each plan.

    The constants come in one section; `more` are put there too, behind those that kernels read, unless `offsets` has
    them all. `for_c` adds what callers need that do without `runtime.shape_program`: functions that compute symbolic
    sizes.
    """
    with trace.span("compile kernels"):
        compiled = compile_tasks(planned.tasks, backend, jobs or len(os.sched_getaffinity(0)))
    kernels = Kernels.of(planned.names, compiled)
    memories, modules = planned.memories, planned.modules
    if any(MEMORY_LIMIT in mod["main"].attrs for _, mod in modules):
        with trace.span("rematerialize"):
            modules, kernels = _within_limits(planned, backend, kernels)
            memories = [memory_plan(mod, backend) for _, mod in modules]
    if kernels.overlaps is not None:
        with trace.span("plan memory again"):
            memories = [_shared_plan(mod, memory, backend, kernels) for (_, mod), memory in zip(modules, memories)]
    read = [constant for memory in planned.memories for constant in memory.constants]
    constants = offsets if offsets is not None else unique_constants([*read, *more], backend.alignment)
    with trace.span("run loop"):
        plans = [
            execution_plan(name, mod["main"], memory, kernels, constants)
            for (name, mod), memory in zip(modules, memories, strict=True)
        ]
        orders = [buffer_order(memory) if for_c else None for memory in memories]
        code, plans = backend.link(compiled, plans, orders)
    return BuiltSegments(code, plans, constants, memories)


def _within_limits(
    planned: PlannedSegments, backend: Backend, kernels: Kernels
) -> tuple[list[tuple[str, IRModule]], Kernels]:
    """The modules with calls that keep their memory limits, and the kernels, which know these calls too."""
    by_function = {call.op: name for call, name in planned.names.items()}

    def known(mod: IRModule) -> tuple[Kernels, MemoryPlan]:
        memory = memory_plan(mod, backend)
        names = {call: by_function[call.op] for call in memory.order}
        return replace(kernels, names={**kernels.names, **names}), memory

    def plan(mod: IRModule) -> MemoryPlan:
        own, memory = known(mod)
        if own.overlaps is not None:
            return _shared_plan(mod, memory, backend, own)
        scratch = [own.workspace(call).shared for call in memory.order]  # behind the arena
        return replace(
            memory, arena_bytes=memory.arena_bytes + max([s for s in scratch if isinstance(s, int)], default=0)
        )

    modules = [(name, rematerialize(mod, plan)) for name, mod in planned.modules]
    names = {call: name for _, mod in modules for call, name in known(mod)[0].names.items()}
    return modules, replace(kernels, names=names)


def _shared_plan(mod: IRModule, memory: MemoryPlan, backend: Backend, kernels: Kernels) -> MemoryPlan:
    """The memory plan of a module whose kernels are known; the one at hand where sizes are symbolic."""
    if memory.buffers or size_vars(mod["main"]):
        return memory
    return plan_memory(mod, backend.alignment, backend.part_alignment, kernels.memory)


def buffer_order(memory: MemoryPlan) -> list[int]:
    """The numbers of the arena's buffers of symbolic size, the ones that are likely largest first."""
    buffers = memory.buffers
    return sorted(range(len(buffers)), key=lambda i: (-size_hint(buffers[i].nbytes), buffers[i].first))


def _require_memory(name: str, main: Function, memory: MemoryPlan) -> None:
    """Refuse a segment whose inputs, outputs and intermediates, as far as they are known, no memory holds."""
    what = "the model" if name == "main" else f"the part {name} of the model"
    parts = [(f"the input {param.name!r}", _known_bytes(param.checked_type)) for param in main.params]
    parts += [("its outputs", _known_bytes(main.body.checked_type)), ("its intermediates", memory.arena_bytes)]
    require_memory_for(parts, what)


def _known_bytes(type_: Type) -> int:
    """The bytes of the tensors in a type whose sizes are all known."""
    leaves = [leaf for leaf in walk_type(type_) if isinstance(leaf, TensorType) and leaf.is_static]
    return sum(leaf.nbytes for leaf in leaves if not leaf.dtype.is_string)


def compile_tasks(tasks: Sequence[Task], backend: Backend, jobs: int) -> list[CompiledKernels]:
    """Compile tasks in groups in `jobs` processes; one object per group, in the order of the tasks."""
    turns = 3 * jobs if jobs > 1 else 1  # several for each process, so that all of them end together
    size = max(1, min(_KERNELS_PER_OBJECT, len(tasks) // turns))
    groups = [tasks[i : i + size] for i in range(0, len(tasks), size)]
    done: dict[int, CompiledKernels] = {}
    for index, compiled in fork_map(
        lambda i: backend.compile(groups[i]), range(len(groups)), jobs, lambda i: groups[i][0].name
    ):
        done[index] = compiled
        trace.progress("compiling kernels", sum(len(groups[i]) for i in done), len(tasks))
    for stage in ("lower", "emit", "llvm"):
        trace.record(f"{stage} (all processes)", sum(c.seconds.get(stage, 0.0) for c in done.values()))
    return [done[i] for i in range(len(groups))]
