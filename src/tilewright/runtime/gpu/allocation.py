"""Several buffers in one allocation of device memory: all that a model of fixed sizes needs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tilewright.errors import EnvironmentError_
from tilewright.runtime.gpu.api import Buffer, DeviceApi
from tilewright.runtime.memory import round_up
from tilewright.runtime.plan import ExecutionPlan


def allocate_together(api: DeviceApi, sizes: Sequence[int]) -> list[Buffer]:
    """Buffers of so many bytes, parts of one allocation; of their own on a device that has none as large as all."""
    sizes = [max(1, size) for size in sizes]
    starts = [0, *accumulate(round_up(size, api.alignment) for size in sizes)]
    try:
        whole = api.allocate(starts[-1])
    except EnvironmentError_:  # OpenCL and WebGPU limit a buffer to less than all memory
        return [api.allocate(size) for size in sizes]
    return [api.view(whole, start, size) for start, size in zip(starts, sizes)]


def fixed_sizes(plan: ExecutionPlan) -> list[int]:
    """The bytes of the arena, of each input and of each output of a plan of fixed sizes."""
    specs = (*plan.inputs, *plan.outputs)
    return [
        max(plan.alignment, plan.arena_bytes),
        *(spec.nbytes for spec in specs),
    ]
