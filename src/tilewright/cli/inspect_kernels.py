"""`tilewright inspect MODEL --stage kernels --target cuda`: what a device launches, moves and computes, by kernel.

With the time that rooflines of well-known GPUs expect, none of which is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.backend.kernels import CompiledKernels, Task
    from tilewright.relay.ir.module import IRModule
    from tilewright.target import Target

#: The GPUs whose rooflines are shown.
_GPUS = ("h200", "rtx-4090", "a100")
_MEGA = 1e-6


def kernel_lines(fused: IRModule, target: Target, kernel: str | None) -> Iterator[str]:
    """The sums of an optimized module, and a row for each kernel call whose name or source contains `kernel`.

    Raises `UnsupportedError` for symbolic sizes.
    """
    # only for this stage: the compiler is slow to import
    from tilewright.backend.gpu.backend import GpuBackend
    from tilewright.backend.gpu.kernel_table import kernel_table
    from tilewright.backend.gpu.schedule.machine import TABLE
    from tilewright.driver.build import compile_segments, plan_segments

    class TextBackend(GpuBackend):
        """Kernels without machine code, which says nothing of them here."""

        def compile(self, tasks: Sequence[Task]) -> CompiledKernels:
            return self.compile_texts(tasks)

    backend = TextBackend(target)
    built = compile_segments(plan_segments([("main", fused)], backend), backend)
    weights = max((offset + constant.data.nbytes for constant, offset in built.constants.items()), default=0)
    table = kernel_table(built.plans[0], built.code, weights)
    yield (
        f"{len(table.rows) - table.total('copies')} kernels, {table.total('launches')} launches, "
        f"{table.total('copies')} copies; {table.total('flops') * 1e-9:.3f} GFLOP"
    )
    yield (
        f"{table.total('moved') * _MEGA:.2f} MB moved, {table.total('least') * _MEGA:.2f} at least (inputs, weights "
        f"and outputs of the kernels); weights {weights * _MEGA:.2f} MB, one arena of {table.arena * _MEGA:.2f}"
    )
    times = (
        f"{name} {table.seconds(TABLE[name], False) * 1e6:.0f} µs, {table.seconds(TABLE[name]) * 1e6:.0f} with launches"
        for name in _GPUS
    )
    yield f"by rooflines: {'; '.join(times)}"
    yield "launches     MFLOP  MB moved  MB least  template     kernel"
    for row in table.rows:
        if kernel is None or kernel in row.name or kernel in row.source:
            yield (
                f"{row.launches:8} {row.flops * _MEGA:9.2f} {row.moved * _MEGA:9.3f} {row.least * _MEGA:9.3f}  "
                f"{row.template:12} {row.name}  # {row.source}"
            )
