"""OpenCL devices that are processors, such as PoCL's (`opencl -device=cpu`): a processor's graph passes and schedules.

A work-group of a processor runs on one core, without memory of its own and without threads beside each other: tiles in
shared memory and barriers only cost. So layouts, fusion and schedules are those of this machine's processor; a parallel
loop becomes blocks of one thread (`bind_shares`), whose vectors are OpenCL's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright import te
from tilewright.backend.cpu.backend import CpuBackend
from tilewright.backend.gpu.backend import GpuBackend
from tilewright.records.entry import TaskKey
from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.transform.manager.graph_pass import GraphPass
from tilewright.relay.transform.passes import PIPELINE
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.pipeline import PROCESSOR_DEVICE
from tilewright.topi.schedule.choice import Choice
from tilewright.topi.schedule.space import ConfigSpace


class _Processor(CpuBackend):
    """This machine's processor as far as OpenCL reaches it."""

    def multiplies_pairs(self) -> bool:
        """False: nor does it multiply pairs of bfloat16."""
        return False

    def half_product(self, units: int, depth: int, rows: int) -> None:
        """None: nor of float16."""

    def dot_operands(self) -> tuple[str, str] | None:
        """None: OpenCL C 1.2 has no dot products of bytes."""
        return None


class ProcessorBackend(GpuBackend):
    """An OpenCL device that is a processor."""

    def __init__(self, target: Target | None) -> None:
        super().__init__(target)
        self._processor = _Processor(Target.host())

    def pipeline(self) -> tuple[GraphPass, ...]:
        """All passes of processors."""
        return PIPELINE

    def asked(self) -> GraphBackend:
        """The processor."""
        return self._processor

    def rules(self) -> GraphBackend:
        """The processor's."""
        return self._processor

    # ------------------------------------------------------------------------------------------------------ schedules
    def schedule(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> te.Schedule:
        """The processor's."""
        return self._processor.schedule(outs, config)

    def search_space(self, outs: list[te.Tensor]) -> ConfigSpace | None:
        """The processor's."""
        return self._processor.search_space(outs)

    def task_key(self, outs: list[te.Tensor]) -> TaskKey | None:
        """None: records of the processor's code say nothing of OpenCL's."""
        return None

    def seconds(self, cycles: float) -> float:
        """By the figures of the processor."""
        return self._processor.seconds(cycles)

    def choice(self, outs: list[te.Tensor], config: Mapping[str, Any] | None = None) -> Choice:
        """The processor's."""
        return self._processor.choice(outs, config)

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The pipeline of processors as kernels of blocks of one thread."""
        return te.lower_stages(s, args, name, target=self.target, pipeline=PROCESSOR_DEVICE)
