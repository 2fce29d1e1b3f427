"""The report of one compilation: graphs before and after, kernels, roofline, memory, what was not supported.

compilation(compile_openly(module, target), module, target)     # a dict that JSON holds
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.backend import Backend
from tilewright.compile import Compiled
from tilewright.driver.build import ModelGraphs, PlannedSegments, plan_segments
from tilewright.driver.model.build import optimized_graphs, run_function
from tilewright.relay.ir.expr import Call
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.runtime.model import Model
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.profile import KernelTime
from tilewright.service.report.graph import fused_graph, groups_of_nodes, imported_graph
from tilewright.service.report.kernels import Budget, kernels_data
from tilewright.service.report.memory import live_bytes, liveness, steps_of
from tilewright.service.report.roofline import machine_facts, point
from tilewright.support.version import version
from tilewright.target import Target

#: A change of the form of reports that the page has to know.
FORM = 1

#: `node 'wave' (Wavelet)`, as messages of importers name a node.
_NODE = re.compile(r"^\s*(?P<position>.*?'(?P<node>[^']*)' \((?P<operator>[^)]+)\).*?): (?P<reason>.+)$")


def compilation(
    made: Compiled | None,
    module: IRModule,
    target: str | Target,
    *,
    times: Sequence[KernelTime] = (),
    seconds: float = 30.0,
) -> dict[str, Any]:
    """The report on `made`, what `module` as imported was compiled to for `target`; None for source code.

    `times` are those of a profile of it. For the texts of kernels are `seconds`.
    """
    target, module = Target(target), infer_type(module)
    imported = imported_graph(module)
    graphs = optimized_graphs(module, target) if made is None else made.graphs
    planned = plan_segments(graphs.segments, graphs.backend)
    fused, numbers = fused_graph(graphs, planned.names)
    of_nodes = groups_of_nodes(imported["nodes"], fused["groups"])
    for node in imported["nodes"]:
        node["groups"] = of_nodes.get(node["id"], [])
    plan, loops = (None, {}) if made is None else (_plan(made.model), made.loops)
    calls = {call: (planned.names[call], numbers[call]) for call in _order(planned)}
    budget = Budget(seconds)
    kernels = kernels_data(planned.tasks, calls, target, graphs.backend, plan, times, budget, loops)
    machine = machine_facts(target)
    return {
        "form": FORM,
        "version": version(),
        "target": str(target),
        "machine": machine,
        "executor": "vm" if graphs.runs_bytecode else "graph",
        "model": imported,
        "fused": fused,
        "kernels": kernels,
        "roofline": {"peak": machine["peak"], "levels": machine["levels"], "points": _points(kernels)},
        "memory": _memory(planned, plan, numbers, {row["name"]: row.get("workspace", [0])[0] for row in kernels}),
        "device_texts": _device_texts(module, graphs.backend, budget),
        "unsupported": _on_host(graphs, fused["groups"]),
        "measured": any(kernel["measured"] for kernel in kernels),
    }


def refusal(error: str, target: str) -> dict[str, Any]:
    """The report on a model that was not compiled: `unsupported` has a row for each operator and reason."""
    rows = []
    for line in error.splitlines():
        found = _NODE.match(line)
        if found:
            rows.append({name: found[name] for name in ("node", "operator", "reason")})
    rows = rows or [{"node": "", "operator": "", "reason": error}]
    return {"form": FORM, "version": version(), "target": target, "unsupported": rows}


def _order(planned: PlannedSegments) -> list[Call]:
    """The calls that kernels run, in order."""
    return [call for memory in planned.memories for call in memory.order]


def _plan(model: Model) -> ExecutionPlan | None:
    """The execution plan of a model that is one segment; None of others."""
    manifest = getattr(model, "manifest", None)
    return manifest if isinstance(manifest, ExecutionPlan) and manifest.kernels else None


def _points(kernels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A position in the roofline for each call that has one."""
    total = sum(kernel["seconds"] for kernel in kernels) or 1.0
    found = []
    for kernel in kernels:
        for call in kernel["calls"]:
            at = point(call["flops"] or 0, call["bytes"] or 0, call["seconds"])
            if at is not None:
                found.append({"kernel": kernel["name"], "group": call["group"], "share": call["seconds"] / total, **at})
    return found


def _memory(
    planned: PlannedSegments, plan: ExecutionPlan | None, numbers: dict[Call, int], scratch: dict[str, int]
) -> dict[str, Any]:
    """Live bytes at each step and the values behind them, of the segment that needs most."""
    memory = max(planned.memories, key=lambda one: one.arena_bytes, default=None)
    weights = sum(constant.data.nbytes for one in planned.memories for constant in one.constants)
    plan = plan if len(planned.memories) == 1 else None
    steps = None if memory is None else steps_of(plan, memory, scratch)
    if memory is None or steps is None:
        return {"arena": None, "weights": weights, "steps": [], "values": []}
    values = liveness(steps)
    live = live_bytes(values, len(steps))
    return {
        "arena": memory.arena_bytes if plan is None else plan.arena_bytes,
        "weights": weights,
        "steps": [
            {"step": number, "group": numbers.get(call), "bytes": nbytes}
            for number, (call, nbytes) in enumerate(zip(memory.order, live))
        ],
        "values": [[value.offset, value.nbytes, value.first, value.last, int(value.scratch)] for value in values],
    }


def _device_texts(module: IRModule, backend: Backend, budget: Budget) -> dict[str, str]:
    """Texts of a device with programs of its own, by stage."""
    found = {}
    for stage in backend.own_stages():
        if not budget.is_spent:
            found[stage] = budget.take("\n".join(backend.own_texts(module, stage, None, run_function)))
    return found


def _on_host(graphs: ModelGraphs, groups: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """The calls that the host runs beside a device."""
    segments = {graphs.segments[number][0] for number in graphs.on_host}
    reason = "runs on the host: the device has no kernel for it, or its sizes are known there only"
    return [
        {"node": group["name"], "operator": group["op"], "reason": reason}
        for group in groups
        if group.get("segment") in segments and "kernel" in group
    ]
