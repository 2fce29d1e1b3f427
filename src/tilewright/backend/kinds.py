"""Which backend serves which kind of target: the one place where a new kind is entered."""

from __future__ import annotations

from tilewright.backend.backend import Backend
from tilewright.backend.cpu import CpuBackend
from tilewright.backend.gpu import GpuBackend
from tilewright.target import DeviceTarget, Target


def backend_of(target: Target | None) -> Backend:
    """The backend of the kind of `target`; None is a processor of which nothing is known."""
    return GpuBackend(target) if isinstance(target, DeviceTarget) else CpuBackend(target)
