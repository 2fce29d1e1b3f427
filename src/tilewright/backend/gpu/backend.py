"""Devices of thread blocks: they take `te` schedules bound to threads (docs/devices.md), no whole models yet."""

from __future__ import annotations

from tilewright.backend.backend import Backend


class GpuBackend(Backend):
    """OpenCL, CUDA, Metal and WebGPU: no layouts, no templates."""

    def refusal(self) -> str:
        """Whole models have no kernels here."""
        return (
            f"whole models do not run on the target {self.target.kind!r} yet, only te schedules bound to its threads "
            'do (docs/devices.md); compile the model for "cpu"'
        )
