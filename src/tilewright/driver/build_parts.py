"""The segments of a program in parts, one for the device and one for the host: each planned and compiled for its own.

They share one section of weights.
"""

from __future__ import annotations

from tilewright.backend.heterogeneous import HeterogeneousBackend
from tilewright.driver.build import BuiltSegments, ModelGraphs, compile_segments, plan_segments
from tilewright.driver.plan import unique_constants
from tilewright.runtime.link import bundle_objects
from tilewright.runtime.plan import ExecutionPlan


def build_segments(graphs: ModelGraphs, jobs: int | None = None) -> BuiltSegments:
    """Plan and compile the segments of a model in `jobs` processes (default: one per processor)."""
    backend = graphs.backend
    if not isinstance(backend, HeterogeneousBackend):
        plan = plan_segments(graphs.segments, backend)
        return compile_segments(plan, backend, jobs, graphs.constants, graphs.for_c)
    there = [number for number in range(len(graphs.segments)) if number not in graphs.on_host]
    numbers = [there, sorted(graphs.on_host)]
    planned = [
        plan_segments([graphs.segments[number] for number in own], part)
        for part, own in zip(backend.parts, numbers, strict=True)
    ]
    read = [constant for plan in planned for memory in plan.memories for constant in memory.constants]
    offsets = unique_constants([*read, *graphs.constants], backend.alignment)
    built = [
        compile_segments(plan, part, jobs, offsets=offsets) for plan, part in zip(planned, backend.parts, strict=True)
    ]
    plans: dict[int, ExecutionPlan] = {}
    for own, one in zip(numbers, built, strict=True):
        plans.update(zip(own, one.plans, strict=True))
    return BuiltSegments(bundle_objects([one.code for one in built]), [plans[i] for i in sorted(plans)], offsets)
