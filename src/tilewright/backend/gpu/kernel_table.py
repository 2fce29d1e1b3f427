"""The kernels of a compiled model as a table, and a model of their time: what is launched, moved and computed.

    table = kernel_table(plan, functions, machine_of(target))
    table.launches, table.moved, table.least, table.seconds

The steps are those that the runtime would record: it records them on a device that only notes sizes. A time is a
roofline: of each kernel the longest of its arithmetic and its bytes, at the rates of the vendor's figures. What lies in
the arena comes from the second-level cache where the whole arena fits it, all else from device memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.backend.gpu.schedule.machine import GpuMachine
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.module import DeviceFunctionInfo
from tilewright.runtime.gpu.noted_steps import Range, noted_steps
from tilewright.runtime.plan import ExecutionPlan, KernelCall

#: Times that Winograd multiplies less than the definition, whose operations are counted: F(4x4, 3x3), 36 for 144.
_FEWER_OPERATIONS = 4


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
            _seconds(row, machine, near) + (row.launches * machine.launch if with_launches else 0.0)
            for row in self.rows
        )

    def total(self, name: str) -> int:
        """The sum of a field over all calls."""
        return sum(getattr(row, name) for row in self.rows)


def kernel_table(plan: ExecutionPlan, code: bytes, weights: int) -> KernelTable:
    """The table of a plan of fixed sizes and the code of its model. Raises `UnsupportedError` for symbolic sizes."""
    noted = noted_steps(plan, code, weights)
    of: list[list[Launch | Copy]] = [[] for _ in plan.kernels]
    for step, call in zip(noted.steps, noted.calls, strict=True):
        of[call].append(step)
    sizes = {
        f"{kind} {number}": spec.nbytes
        for kind, specs in (("input", plan.inputs), ("output", plan.outputs))
        for number, spec in enumerate(specs)
    }
    rows = [_row(call, own, noted.functions, sizes) for call, own in zip(plan.kernels, of)]
    return KernelTable(rows, plan.arena_bytes, weights, noted.allocations)


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
            ranges = {arg for arg in step.args if isinstance(arg, Range)}
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


def _seconds(row: KernelRow, machine: GpuMachine, near: float) -> float:
    """The roofline of a call; Winograd's transforms, which only move, stand before and behind its products."""
    moving = (row.moved - row.far) / near + row.far / machine.dram_bytes
    computing = row.flops / _rate(row, machine)
    return moving + computing / _FEWER_OPERATIONS if row.template == "winograd" else max(computing, moving)


def _rate(row: KernelRow, machine: GpuMachine) -> float:
    """Operations a second."""
    if row.template != "tensor_core":
        return machine.peak_float32
    return machine.peak_int8 if row.dtype in ("int8", "uint8") else machine.peak_float16
