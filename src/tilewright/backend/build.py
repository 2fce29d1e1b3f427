"""`build`: functions of the loop IR to a module that can be called from Python, by the backend of their target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backend.kinds import backend_of
from tilewright.target import Target
from tilewright.tir.stmt import PrimFunc


def build(funcs: PrimFunc | Sequence[PrimFunc], target: Target | str = "cpu", threads: int | None = None) -> Any:
    """A runtime module of lowered functions: a `Module`, a `gpu.DeviceModule` or a `wasm.WasmModule` of `runtime`.

    Raises `TargetError` if this machine cannot run code for `target`.
    """
    return backend_of(Target(target)).build([funcs] if isinstance(funcs, PrimFunc) else list(funcs), threads)
