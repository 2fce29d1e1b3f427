"""A fused module to an executable: distinct kernels compiled in parallel, memory planned, a run loop made of both."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.backend import backend_of
from tilewright.codegen.kernel_code import Form
from tilewright.codegen.native.call import call_text
from tilewright.codegen.native.contract import with_contract
from tilewright.codegen.native.pool_code import compile_text, pool_code
from tilewright.codegen.size_plan import size_plan
from tilewright.driver.assemble import (
    CompiledObject,
    Kernels,
    Segment,
    Workspace,
    assemble,
    model_manifest,
    unique_constants,
)
from tilewright.driver.lower import lower_function
from tilewright.relay.ir.expr import Call, Constant, Function
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.structural import structural_hash
from tilewright.relay.ir.symbolic import close_dims
from tilewright.relay.ir.type import TensorType, Type, walk_type
from tilewright.relay.transform.fuse.fuse_ops import fused_name
from tilewright.relay.transform.memory.plan_memory import MemoryPlan, plan_memory
from tilewright.runtime.artifact import weights_bytes
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.c_source import CModel
from tilewright.runtime.executor import Executable
from tilewright.runtime.executor_aot import AheadOfTime
from tilewright.runtime.foreign import ForeignModel
from tilewright.runtime.link import bundle_objects, split_objects
from tilewright.runtime.manifest import Manifest, SegmentManifest
from tilewright.runtime.model import Model
from tilewright.runtime.native import PoolCode, pool_key
from tilewright.support import trace
from tilewright.support.memory_limit import require_memory_for
from tilewright.support.processes import fork_map
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

#: Writes the manifest, code and weights of a model somewhere and loads it from there; None where it does not.
Keep = Callable[[Manifest, bytes, Sequence[Any]], Model | None]

#: Kernels compiled into one object: enough to share the fixed costs, few enough to balance the processes.
_KERNELS_PER_OBJECT = 8


def objects(funcs: Sequence[PrimFunc], target: Target) -> tuple[bytes, float]:
    """What kernels become unless a caller wants another form: what the target's kind links."""
    return backend_of(target).object_code(funcs)


@dataclass(frozen=True)
class Task:
    """One distinct fused function and the name of its kernel."""

    name: str
    function: Function


def extract_tasks(calls: Iterable[Call]) -> tuple[list[Task], dict[Call, str]]:
    """The distinct functions among the fused calls (in dimensions of their own), and the kernel's name of each call."""
    tasks: dict[str, Task] = {}
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
    return list(tasks.values()), names


def build_executable(
    mod: IRModule,
    target: Target,
    threads: int | None = None,
    jobs: int | None = None,
    ahead_of_time: bool = False,
    keep: Keep | None = None,
) -> Model:
    """Compile a module that went through the graph passes; `jobs` processes compile (default: one per processor).

    With `ahead_of_time` the object code has the one function that runs the model, and that is how it is run. `keep` is
    asked for the model first, so that its weights need not be copied.
    """
    built = build_segments([("main", mod)], target, jobs, for_c=True)
    main = mod["main"]
    manifest = model_manifest(built.segments[0], main, target, built.constants)
    weights = [c.data for c in built.constants]
    code = built.code
    if ahead_of_time:
        manifest = replace(manifest, executor=AheadOfTime.executor)
        function = compile_text(call_text(CInterface.of(manifest)), target.architecture)
        code = bundle_objects([*split_objects(code), function])
    code = with_contract(code, manifest, weights_bytes(manifest, weights))
    if not target.is_host:
        with trace.span("link"):
            return foreign_model(code, manifest, weights, target)
    kept = keep(manifest, code, weights) if keep is not None else None
    if kept is not None:
        return kept
    with trace.span("link"):
        return (AheadOfTime if ahead_of_time else Executable)(code, manifest, weights, threads)


def foreign_model(
    code: bytes, manifest: Manifest, weights: Any, target: Target, c_model: CModel | None = None
) -> ForeignModel:
    """A model for another machine, with the native runtime that it needs there."""
    pool = PoolCode(pool_key(target.architecture), pool_code(target.architecture))
    return ForeignModel(code, manifest, weights, pool, c_model)


def build_segments(
    modules: Sequence[tuple[str, IRModule]],
    target: Target,
    jobs: int | None = None,
    more: Sequence[Constant] = (),
    for_c: bool = False,
    form: Form = objects,
) -> BuiltSegments:
    """Compile the `main` of several modules, each an entry of the given name; kernels that are alike are shared.

    The constants come in one section; `more` are put there too, behind those that kernels read. `for_c` adds what
    callers need that do without `runtime.shape_program`: functions that compute symbolic sizes. `form` is what the
    kernels become.
    """
    with trace.span("plan memory"):
        plans = [plan_memory(mod) for _, mod in modules]
    for (name, mod), plan in zip(modules, plans, strict=True):
        if form is objects:  # source may be for a larger machine
            _require_memory(name, mod["main"], plan)
    calls = [call for plan in plans for call in plan.order]
    tasks, names = extract_tasks(calls)
    trace.count("kernels", len(tasks))
    trace.count("kernel calls", len(calls))
    with trace.span("compile kernels"):
        compiled = compile_tasks(tasks, target, jobs or len(os.sched_getaffinity(0)), form)
    kernels = Kernels.of(names, compiled)
    constants = unique_constants([*[c for plan in plans for c in plan.constants], *more])
    with trace.span("run loop"):
        made = [
            assemble(name, mod["main"], plan, kernels, constants)
            for (name, mod), plan in zip(modules, plans, strict=True)
        ]
        copies = {func.name: func for segment in made for func in segment.copies}
        plans_for_c = [add_size_plan(segment) for segment in made if for_c and segment.manifest.dynamic is not None]
        loops = [*copies.values(), *[segment.loop for segment in made], *plans_for_c]
        compiled = [*compiled, compile_functions(loops, target, form)]
    code = bundle_objects([c.code for c in compiled])
    return BuiltSegments(code, [segment.manifest for segment in made], constants)


def _require_memory(name: str, main: Function, plan: MemoryPlan) -> None:
    """Refuse a segment whose inputs, outputs and intermediates, as far as they are known, no memory holds."""
    what = "the model" if name == "main" else f"the part {name} of the model"
    parts = [(f"the input {param.name!r}", _known_bytes(param.checked_type)) for param in main.params]
    parts += [("its outputs", _known_bytes(main.body.checked_type)), ("its intermediates", plan.arena_bytes)]
    require_memory_for(parts, what)


def _known_bytes(type_: Type) -> int:
    """The bytes of the tensors in a type whose sizes are all known."""
    leaves = [leaf for leaf in walk_type(type_) if isinstance(leaf, TensorType) and leaf.is_static]
    return sum(leaf.nbytes for leaf in leaves if not leaf.dtype.is_string)


def add_size_plan(segment: Segment) -> PrimFunc:
    """The function that computes the segment's symbolic sizes; the texts of its checks go into the manifest."""
    planned = size_plan(segment.manifest, segment.order)
    segment.manifest = replace(segment.manifest, checks=planned.messages)
    return planned.function


@dataclass(frozen=True)
class BuiltSegments:
    """Object code of several segments, the manifest of each, and the constants that they share."""

    code: bytes
    segments: list[SegmentManifest]
    constants: dict[Constant, int]


def compile_tasks(tasks: Sequence[Task], target: Target, jobs: int, form: Form = objects) -> list[CompiledObject]:
    """Compile tasks in groups in `jobs` processes; one object per group, in the order of the tasks."""
    size = max(1, min(_KERNELS_PER_OBJECT, len(tasks) // (3 * jobs)))
    groups = [tasks[i : i + size] for i in range(0, len(tasks), size)]
    done: dict[int, CompiledObject] = {}
    for index, compiled in fork_map(
        lambda i: _compile_group(groups[i], target, form), range(len(groups)), jobs, lambda i: groups[i][0].name
    ):
        done[index] = compiled
        trace.progress("compiling kernels", sum(len(groups[i]) for i in done), len(tasks))
    for stage in ("lower", "emit", "llvm"):
        trace.record(f"{stage} (all processes)", sum(c.seconds.get(stage, 0.0) for c in done.values()))
    return [done[i] for i in range(len(groups))]


def _compile_group(tasks: Sequence[Task], target: Target, form: Form) -> CompiledObject:
    start = time.perf_counter()
    funcs = [lower_function(task.function, task.name, target) for task in tasks]
    return compile_functions(funcs, target, form, time.perf_counter() - start)


def compile_functions(
    funcs: Sequence[PrimFunc], target: Target, form: Form, lower_seconds: float = 0.0
) -> CompiledObject:
    """One object (or text) of lowered functions."""
    start = time.perf_counter()
    code, emitting = form(funcs, target)
    seconds = {"lower": lower_seconds, "emit": emitting, "llvm": time.perf_counter() - start - emitting}
    workspaces = {f.name: Workspace.of(f) for f in funcs}
    choices = {f.name: f.attrs["choice"].to_json() for f in funcs if "choice" in f.attrs}
    return CompiledObject(code, workspaces, choices, seconds)
