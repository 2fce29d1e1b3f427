"""The kernels of a compiled model as a table, and a model of their time: what is launched, moved and computed.

    table = kernel_table(plan, functions, machine_of(target))
    table.launches, table.moved, table.least, table.seconds

The steps are those that the runtime would record: it records them on a device that only notes sizes. A time is a
roofline: of each kernel the longest of its arithmetic and its bytes, at the rates of the vendor's figures. What lies in
the arena comes from the second-level cache where the whole arena fits it, all else from device memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.backend.gpu.schedule.machine import GpuMachine
from tilewright.errors import UnsupportedError
from tilewright.runtime.gpu.allocation import allocate_together, fixed_sizes
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.gpu.module import DeviceFunctionInfo
from tilewright.runtime.gpu.program import Function, Segment
from tilewright.runtime.link import split_objects
from tilewright.runtime.plan import ExecutionPlan, KernelCall


@dataclass(frozen=True)
class KernelRow:
    """One call of a kernel: bytes `moved` by its launches, each array once a launch; `least` those of its arguments.

    `far` of the bytes moved are of device memory whatever its caches hold: weights, inputs and outputs of the model.
    """

    name: str
    source: str
    template: str
    dtype: str
    launches: int
    flops: int
    moved: int
    far: int
    least: int
    copies: int = 0


@dataclass(frozen=True)
class KernelTable:
    """The calls of a plan in order; `arena` and `weights` in bytes, `allocations` of device memory for all of it."""

    rows: Sequence[KernelRow]
    arena: int
    weights: int
    allocations: int

    def seconds(self, machine: GpuMachine, with_launches: bool = True) -> float:
        """The time of one run by the roofline of a GPU, with what its launches take unless these are hidden."""
        near = machine.l2_bytes if self.arena <= machine.l2 else machine.dram_bytes
        return sum(
            max(row.flops / _rate(row, machine), (row.moved - row.far) / near + row.far / machine.dram_bytes)
            + (row.launches * machine.launch if with_launches else 0.0)
            for row in self.rows
        )

    def total(self, name: str) -> int:
        """The sum of a field over all calls."""
        return sum(getattr(row, name) for row in self.rows)


def kernel_table(plan: ExecutionPlan, code: bytes, weights: int) -> KernelTable:
    """The table of a plan of fixed sizes and the code of its model. Raises `UnsupportedError` for symbolic sizes."""
    if plan.dynamic is not None:
        raise UnsupportedError("the kernels of symbolic sizes have no sizes to show: fix them, as by --input-shapes")
    functions = {info.name: info for info in functions_of(code)}
    device = _NotingDevice(plan.alignment)
    kernels: dict[str, Any] = {
        step["kernel"]: _Named(step["kernel"]) for info in functions.values() for step in info.launches
    }
    allocate_together(device, [weights, *fixed_sizes(plan)])  # type: ignore[arg-type]
    inputs, outputs = (
        [_Range(f"{kind} {number}", 0, 0) for number, _ in enumerate(specs)]
        for kind, specs in (("input", plan.inputs), ("output", plan.outputs))
    )
    segment = Segment(
        plan,
        device,  # type: ignore[arg-type]
        {name: Function(info, kernels) for name, info in functions.items()},
        _Range("weights", 0, weights),
        None,
        [_Range("arena", 0, plan.arena_bytes), *inputs, *outputs],
    )
    steps, calls = segment.steps(inputs, outputs, None)
    of: list[list[Launch | Copy]] = [[] for _ in plan.kernels]
    for step, call in zip(steps, calls, strict=True):
        of[call].append(step)
    sizes = {
        range_.space: spec.numpy.itemsize * _count(spec.static_shape)
        for ranges, specs in ((inputs, plan.inputs), (outputs, plan.outputs))
        for range_, spec in zip(ranges, specs)
    }
    rows = [_row(call, own, functions, sizes) for call, own in zip(plan.kernels, of)]
    return KernelTable(rows, plan.arena_bytes, weights, device.allocations)


def functions_of(code: bytes) -> Iterator[DeviceFunctionInfo]:
    """The functions in a model's code, of each group of kernels those for its first architecture."""
    for group in split_objects(code):
        yield from DeviceCode.decode(split_objects(group)[0]).functions


def _row(
    call: KernelCall,
    steps: Sequence[Launch | Copy],
    functions: Mapping[str, DeviceFunctionInfo],
    sizes: Mapping[str, int],
) -> KernelRow:
    copies = [step for step in steps if isinstance(step, Copy)]
    moved = far = 2 * sum(step.nbytes for step in copies)
    for step in steps:
        if isinstance(step, Launch):
            ranges = {arg for arg in step.args if isinstance(arg, _Range)}
            moved += sum(sizes.get(one.space, one.nbytes) for one in ranges)
            far += sum(sizes.get(one.space, one.nbytes) for one in ranges if one.space != "arena")
    params = functions[call.name].params if call.name in functions else ()
    dtype = next((param.dtype for param in params if not param.is_scalar), "")
    template = str(call.choice.get("template", "copy" if call.is_copy else ""))
    least = call.bytes or moved
    return KernelRow(
        call.name, call.source_text, template, dtype, len(steps) - len(copies), call.flops or 0, moved, far, least,
        len(copies),
    )  # fmt: skip


def _rate(row: KernelRow, machine: GpuMachine) -> float:
    """Operations a second."""
    if row.template != "tensor_core":
        return machine.peak_float32
    return machine.peak_int8 if row.dtype in ("int8", "uint8") else machine.peak_float16


def _count(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


@dataclass(frozen=True)
class _Range:
    """Bytes of one kind of memory; of inputs and outputs the whole."""

    space: str
    offset: int
    nbytes: int


class _Named:
    """A kernel of which nothing is known but its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class _NotingDevice:
    """A device without memory: buffers are their sizes, and allocations are counted."""

    def __init__(self, alignment: int) -> None:
        self.alignment, self.allocations = alignment, 0

    def allocate(self, nbytes: int) -> _Range:
        self.allocations += 1
        return _Range("arena", 0, nbytes)

    def view(self, buffer: _Range, offset: int, nbytes: int) -> Any:
        return _Range(buffer.space, buffer.offset + offset, nbytes)
