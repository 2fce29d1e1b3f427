"""A fused module to an executable: distinct kernels compiled in parallel, memory planned, a run loop made of both."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.codegen.run_loop import KernelCall, Location, build_run_loop
from tilewright.relay.copy_kernel import copy_kernel
from tilewright.relay.cost import flops, moved_bytes
from tilewright.relay.expr import Call, Constant, Function
from tilewright.relay.lower import lower_function
from tilewright.relay.module import IRModule
from tilewright.relay.structural import structural_hash
from tilewright.relay.transform.fuse_ops import fused_name
from tilewright.relay.transform.plan_memory import MemoryPlan, Storage, Where, plan_memory
from tilewright.relay.type import TensorType, tensor_types
from tilewright.runtime.executor import Executable
from tilewright.runtime.link import bundle_objects
from tilewright.support import trace
from tilewright.support.processes import fork_map
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc

ALIGNMENT = 64

#: Kernels compiled into one object: enough to share the fixed costs, few enough to balance the processes.
_KERNELS_PER_OBJECT = 8


@dataclass(frozen=True)
class Task:
    """One distinct fused function and the name of its kernel."""

    name: str
    function: Function


@dataclass(frozen=True)
class CompiledObject:
    """Object code of some kernels, the scratch memory and schedule of each, and the seconds each stage took."""

    code: bytes
    workspaces: dict[str, tuple[int, int]]
    choices: dict[str, dict[str, Any]]
    seconds: dict[str, float]


def extract_tasks(calls: Iterable[Call]) -> tuple[list[Task], dict[Call, str]]:
    """The distinct functions among the fused calls, and the kernel's name of each call."""
    tasks: dict[str, Task] = {}
    names: dict[Call, str] = {}
    used: dict[str, int] = {}
    for call in calls:
        assert isinstance(call.op, Function)
        key = structural_hash(call.op)
        if key not in tasks:
            stem = fused_name(call.op)
            used[stem] = used.get(stem, 0) + 1
            tasks[key] = Task(stem if used[stem] == 1 else f"{stem}_{used[stem]}", call.op)
        names[call] = tasks[key].name
    return list(tasks.values()), names


def build_executable(mod: IRModule, target: Target, threads: int | None = None, jobs: int | None = None) -> Executable:
    """Compile a module that went through the graph passes; `jobs` processes compile (default: one per processor)."""
    with trace.span("plan memory"):
        plan = plan_memory(mod)
    tasks, names = extract_tasks(plan.order)
    trace.count("kernels", len(tasks))
    trace.count("kernel calls", len(plan.order))
    with trace.span("compile kernels"):
        objects = compile_tasks(tasks, target, jobs or len(os.sched_getaffinity(0)))
    with trace.span("link"):
        return _assemble(mod, plan, names, objects, target, threads)


def compile_tasks(tasks: Sequence[Task], target: Target, jobs: int) -> list[CompiledObject]:
    """Compile tasks in groups in `jobs` processes; one object per group, in the order of the tasks."""
    size = max(1, min(_KERNELS_PER_OBJECT, len(tasks) // (3 * jobs)))
    groups = [tasks[i : i + size] for i in range(0, len(tasks), size)]
    done: dict[int, CompiledObject] = {}
    for index, compiled in fork_map(
        lambda i: _compile_group(groups[i], target), range(len(groups)), jobs, lambda i: groups[i][0].name
    ):
        done[index] = compiled
        trace.progress("compiling kernels", sum(len(groups[i]) for i in done), len(tasks))
    for stage in ("lower", "emit", "llvm"):
        trace.record(f"{stage} (all processes)", sum(c.seconds.get(stage, 0.0) for c in done.values()))
    return [done[i] for i in range(len(groups))]


def _compile_group(tasks: Sequence[Task], target: Target) -> CompiledObject:
    start = time.perf_counter()
    funcs = [lower_function(task.function, task.name, target) for task in tasks]
    return compile_functions(funcs, target, time.perf_counter() - start)


def compile_functions(funcs: Sequence[PrimFunc], target: Target, lower_seconds: float = 0.0) -> CompiledObject:
    """One object of lowered functions."""
    start = time.perf_counter()
    text = emit_module(funcs, target).text
    emitted = time.perf_counter()
    code = compile_object(text, target)
    seconds = {"lower": lower_seconds, "emit": emitted - start, "llvm": time.perf_counter() - emitted}
    workspaces = {
        f.name: (int(f.attrs.get("workspace_bytes", 0)), int(f.attrs.get("worker_workspace_bytes", 0))) for f in funcs
    }
    choices = {f.name: f.attrs["choice"].to_json() for f in funcs if "choice" in f.attrs}
    return CompiledObject(code, workspaces, choices, seconds)


def _assemble(
    mod: IRModule, plan: MemoryPlan, names: dict[Call, str], objects: list[CompiledObject], target: Target,
    threads: int | None,
) -> Executable:  # fmt: skip
    main = mod["main"]
    weights = _place_weights(plan.constants)
    copies = [copy_kernel(source.nbytes, f"copy_{source.nbytes}") for source, _ in plan.copies]
    if copies:
        objects = [*objects, compile_functions(list({f.name: f for f in copies}.values()), target)]
    workspaces = {name: sizes for compiled in objects for name, sizes in compiled.workspaces.items()}
    shared = max((s for s, _ in workspaces.values()), default=0)
    scratch = _aligned(max((p for _, p in workspaces.values()), default=0))
    calls = [_kernel_call(call, names[call], plan, weights, workspaces[names[call]]) for call in plan.order]
    choices = {name: choice for compiled in objects for name, choice in compiled.choices.items()}
    costs = {i: _cost(call, choices.get(names[call])) for i, call in enumerate(plan.order)}
    calls += [
        KernelCall(f"copy_{source.nbytes}", (_location(source, weights), Location("output", index)))
        for source, index in plan.copies
    ]
    outputs = tensor_types(main.body.checked_type)
    loop = build_run_loop(calls, len(main.params), len(outputs), scratch)
    objects = [*objects, compile_functions([loop], target)]
    manifest = _manifest(main, outputs, target) | {
        "arena_bytes": _aligned(plan.arena_bytes) + _aligned(shared),
        "worker_workspace_bytes": scratch,
        "weights": [
            {"name": f"constant{i}", "offset": offset, "bytes": constant.data.nbytes}
            for i, (constant, offset) in enumerate(zip(plan.constants, weights))
        ],
        "kernels": [
            {"name": c.kernel, "source": c.source, "args": [[a.space, a.offset] for a in c.arguments]}
            | costs.get(i, {})
            for i, c in enumerate(calls)
        ],
    }
    return Executable(bundle_objects([c.code for c in objects]), manifest, [c.data for c in plan.constants], threads)


def _manifest(main: Function, outputs: Sequence[TensorType], target: Target) -> dict[str, Any]:
    names = list(main.attrs.get("output_names", ())) or [f"output{i}" for i in range(len(outputs))]
    params = [(param.name, param.checked_type) for param in main.params]
    return {
        "tilewright_version": metadata.version("tilewright"),
        "target": str(target),
        "arch": target.architecture,
        "cpu_features": list(target.features),
        "entry": "main",
        "inputs": [{"name": n, "shape": list(t.shape), "dtype": str(t.dtype)} for n, t in params],  # type: ignore[attr-defined]
        "outputs": [{"name": n, "shape": list(t.shape), "dtype": str(t.dtype)} for n, t in zip(names, outputs)],
    }


def _place_weights(constants: Sequence[Constant]) -> list[int]:
    """Byte offsets of the constants in the weights section, each on a cache line."""
    sizes = np.array([_aligned(c.data.nbytes) for c in constants], dtype=np.int64)
    return [int(offset) for offset in np.cumsum(sizes) - sizes]


def _kernel_call(
    call: Call, name: str, plan: MemoryPlan, weights: list[int], workspaces: tuple[int, int]
) -> KernelCall:
    arguments = [_location(storage, weights) for storage in plan.arguments(call)]
    if any(workspaces):
        arguments += [Location("arena", _aligned(plan.arena_bytes)), Location("scratch", 0)]
    return KernelCall(name, tuple(arguments), call.span)


def _cost(call: Call, choice: dict[str, Any] | None) -> dict[str, Any]:
    """What the manifest says of a kernel call beside how to make it: operations, bytes, and what its schedule chose."""
    cost = {"flops": flops(call), "bytes": moved_bytes(call)}
    return cost if choice is None else cost | {"choice": choice}


def _location(storage: Storage, weights: list[int]) -> Location:
    if storage.where is Where.CONSTANT:
        return Location("weights", weights[storage.position])
    return Location(storage.where.value, storage.position)  # type: ignore[arg-type]


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
