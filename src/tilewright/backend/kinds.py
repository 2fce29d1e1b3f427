"""The backend of each kind of target: a new kind is entered here, by a line.

Saved models are loaded without a backend: the runtime finds their programs by the manifest's `device`
(`runtime/program.py`), and `load.py` registers those of this package that stand on more than the runtime.
"""

from __future__ import annotations

import importlib
from functools import cache

from tilewright.backend.backend import Backend
from tilewright.runtime.program import Program
from tilewright.runtime.program import register as register_program
from tilewright.target import Target

#: The backend of each kind of target, by the first word of its spelling: a module below this folder, and a class.
#: Those of kinds that nobody compiles for are not imported.
BACKENDS: dict[str, str] = {
    "llvm": "cpu.backend:CpuBackend",
    "c": "c.backend:CBackend",
    "wasm": "wasm.backend:WasmBackend",
    "board": "board.backend:BoardBackend",
    "vta": "vta.backend:VtaBackend",
    "vta board": "vta.board:VtaBoardBackend",
    "opencl cpu": "gpu.processor:ProcessorBackend",
    "opencl": "gpu.backend:GpuBackend",
    "cuda": "gpu.backend:GpuBackend",
    "metal": "gpu.backend:GpuBackend",
    "vulkan": "gpu.backend:GpuBackend",
    "webgpu": "gpu.backend:GpuBackend",
}

_REGISTERED: dict[str, type[Backend]] = {}


def register(kind: str, backend: type[Backend], program: type[Program]) -> None:
    """Register the backend and the program of a kind of target from another package."""
    _REGISTERED[kind] = backend
    register_program(backend.device, lambda: program)


def backend_of(target: Target | None) -> Backend:
    """The backend for `target`; for None that of a processor without known figures."""
    kind = "llvm" if target is None else target.backend
    return (_REGISTERED.get(kind) or _class(kind))(target)


@cache
def _class(kind: str) -> type[Backend]:
    """The class of a kind of this package, that of processors for machines that a program declares."""
    module, _, name = BACKENDS.get(kind, BACKENDS["llvm"]).partition(":")
    return getattr(importlib.import_module(f"tilewright.backend.{module}"), name)
