"""The launches and copies that the runtime records of a plan, on a device that only notes offsets and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import UnsupportedError
from tilewright.runtime.gpu.allocation import allocate_together, fixed_sizes
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.gpu.module import DeviceFunctionInfo
from tilewright.runtime.gpu.program import Function, Segment
from tilewright.runtime.link import split_objects
from tilewright.runtime.plan import ExecutionPlan


@dataclass(frozen=True)
class Range:
    """Bytes of one kind of memory: "weights", "arena", "input 0", "output 0"; of inputs and outputs the whole."""

    space: str
    offset: int
    nbytes: int


@dataclass(frozen=True)
class NotedSteps:
    """The steps, whose arguments are `Range`s and numbers, the number of the call of each, the functions by name.

    `allocations` are those of device memory.
    """

    steps: Sequence[Launch | Copy]
    calls: Sequence[int]
    functions: Mapping[str, DeviceFunctionInfo]
    allocations: int


def noted_steps(plan: ExecutionPlan, code: bytes, weights: int, binary: str = "") -> NotedSteps:
    """The steps of a plan with so many bytes of weights, of the code that `codes_for` finds.

    Raises `UnsupportedError` for symbolic sizes.
    """
    if plan.dynamic is not None:
        raise UnsupportedError("the kernels of symbolic sizes have no sizes to show: fix them, as by --input-shapes")
    functions = {info.name: info for one in codes_for(code, binary) for info in one.functions}
    kernels: dict[str, Any] = {
        step["kernel"]: _Named(step["kernel"]) for info in functions.values() for step in info.launches
    }
    device = _NotingDevice(plan.alignment)
    allocate_together(device, [weights, *fixed_sizes(plan)])  # type: ignore[arg-type]
    inputs, outputs = (
        [Range(f"{kind} {number}", 0, 0) for number, _ in enumerate(specs)]
        for kind, specs in (("input", plan.inputs), ("output", plan.outputs))
    )
    segment = Segment(
        plan,
        device,  # type: ignore[arg-type]
        {name: Function(info, kernels) for name, info in functions.items()},
        Range("weights", 0, weights),
        None,
        [Range("arena", 0, plan.arena_bytes), *inputs, *outputs],
    )
    steps, calls = segment.steps(inputs, outputs, None)
    return NotedSteps(steps, calls, functions, device.allocations)


def codes_for(code: bytes, binary: str = "") -> list[DeviceCode]:
    """A model's code: of each group of kernels that with machine code of this name, by default its first."""
    groups = [[DeviceCode.decode(one) for one in split_objects(group)] for group in split_objects(code)]
    return [next(one for one in group if not binary or binary in one.binaries) for group in groups]


class _Named:
    """A kernel of which nothing is known but its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class _NotingDevice:
    """A device without memory: buffers are their sizes, and allocations are counted."""

    def __init__(self, alignment: int) -> None:
        self.alignment, self.allocations = alignment, 0

    def allocate(self, nbytes: int) -> Range:
        self.allocations += 1
        return Range("arena", 0, nbytes)

    def view(self, buffer: Range, offset: int, nbytes: int) -> Any:
        return Range(buffer.space, buffer.offset + offset, nbytes)
