"""Which backend serves which kind of target: the one place where a new kind is entered."""

from __future__ import annotations

from tilewright.backend.backend import Backend
from tilewright.backend.cpu.backend import CpuBackend
from tilewright.backend.gpu.backend import GpuBackend
from tilewright.device_target import DEVICE_KINDS
from tilewright.target import Target


def backend_of(target: Target | None) -> Backend:
    """The backend of the kind of `target`; None is a processor of which nothing is known."""
    return GpuBackend(target) if target is not None and target.kind in DEVICE_KINDS else CpuBackend(target)
