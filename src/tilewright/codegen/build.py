"""`build`: functions of the loop IR to a module that can be called from Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.codegen.build_device import build_device
from tilewright.codegen.function_info import function_info
from tilewright.codegen.kernel_code import for_c
from tilewright.codegen.llvm import compile_object, emit_module
from tilewright.codegen.native.pool_code import pool_code
from tilewright.codegen.source import emit_c
from tilewright.codegen.source.compile_c import compile_c
from tilewright.errors import TargetError, UnsupportedError
from tilewright.runtime.module import FunctionInfo, Module, save_module
from tilewright.runtime.native import PoolCode, pool_key
from tilewright.runtime.wasm import WasmModule, link_wasm
from tilewright.support.trace import span
from tilewright.target import DeviceTarget, Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_threads import has_threads
from tilewright.tir.transform.plan_allocations import workspace_size


def build(funcs: PrimFunc | Sequence[PrimFunc], target: Target | str = "cpu", threads: int | None = None) -> Any:
    """A runtime module of lowered functions: a `Module`, a `gpu.DeviceModule` or a `wasm.WasmModule` of `runtime`.

    Raises `TargetError` if this machine cannot run code for `target`.
    """
    target = Target(target)
    funcs = [funcs] if isinstance(funcs, PrimFunc) else list(funcs)
    if target.has_thread_blocks:
        return build_device(funcs, target)
    if target.architecture == "wasm32":
        _refuse_threads(funcs)
        return _build_wasm(funcs, target)
    return compiled(funcs, target).load(threads)


@dataclass(frozen=True)
class Compiled:
    """Functions as object code that is not in memory to be run yet: it can be sent to another process."""

    object_code: bytes
    functions: tuple[FunctionInfo, ...]
    messages: tuple[str, ...]
    target: str

    def load(self, threads: int | None = None) -> Module:
        """The functions, ready to be called."""
        return Module(self.object_code, self.functions, self.messages, self.target, threads)

    def pool(self) -> PoolCode:
        """The native runtime of the machine that they are for."""
        architecture = Target(self.target).architecture
        return PoolCode(pool_key(architecture), pool_code(architecture))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write them to one file, which `Module.load` reads on that machine."""
        save_module(path, self.object_code, self.functions, self.messages, self.target, self.pool())


def compiled(funcs: Sequence[PrimFunc], target: Target, here: bool = True) -> Compiled:
    """Object code of lowered functions for a processor.

    Raises `TargetError` if this machine cannot run it, unless it is for another (`here` False).
    """
    _refuse_threads(funcs)
    sizes = [size for size in map(workspace_size, funcs) if size is not None]
    if here and not target.is_host:
        raise TargetError(f"this machine ({Target.host()}) cannot run code for {target}; emit an object file instead")
    code, messages = _compile([*funcs, *sizes], target)
    return Compiled(code, tuple(function_info(func) for func in funcs), messages, str(target))


def _refuse_threads(funcs: Sequence[PrimFunc]) -> None:
    """Raise `TargetError` for loops bound to the threads of a device."""
    for func in funcs:
        if has_threads(func):
            raise TargetError(
                f"{func.name} has loops bound to device threads; build it for: {', '.join(DeviceTarget.KINDS)}"
            )


def _build_wasm(funcs: Sequence[PrimFunc], target: Target) -> WasmModule:
    """A WebAssembly module, run on one thread."""
    infos = [function_info(func) for func in funcs]
    for info in infos:
        if info.workspace_function:
            raise UnsupportedError(f"{info.name}: temporaries of symbolic size are not supported in WebAssembly yet")
    emitted = emit_module(funcs, target)
    code = link_wasm(compile_object(emitted.text, target), [f"{info.name}__entry" for info in infos])
    return WasmModule(code, infos, emitted.messages)


def _compile(funcs: Sequence[PrimFunc], target: Target) -> tuple[bytes, tuple[str, ...]]:
    """Object code by LLVM or by way of C, and the messages of its assertions."""
    if target.kind == "c":
        with span("codegen"):
            source = emit_c(for_c(funcs, target))
        with span("C compiler"):
            return compile_c(source.text, target), source.messages
    with span("codegen"):
        emitted = emit_module(funcs, target)
    with span("llvm"):
        return compile_object(emitted.text, target), emitted.messages
