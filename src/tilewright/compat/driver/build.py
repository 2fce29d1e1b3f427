"""`tvm.lower` and `tvm.build`: from schedules to modules of loop functions, and from those to callable code."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright import te
from tilewright.backend import backend_of
from tilewright.backend.compiled import Compiled
from tilewright.backend.cpu.backend import CpuBackend
from tilewright.compat.ir.module import IRModule
from tilewright.compat.ir.pass_config import after_stage, bounds_are_checked, with_added
from tilewright.compat.runtime.compiled_module import CompiledModule, Exported
from tilewright.compat.runtime.functions import offer_host_functions
from tilewright.compat.runtime.linked import as_data
from tilewright.compat.runtime.model_library import is_library, write_functions
from tilewright.compat.target.target import Target as CurrentTarget
from tilewright.compat.tir.intrinsic_rules import with_rules
from tilewright.compat.tir.lowering import lowered, without_workers
from tilewright.compat.vta.environment import get_env
from tilewright.compat.vta.program import program_of
from tilewright.errors import ArtifactError, EnvironmentError_, InputError, UnsupportedError
from tilewright.runtime.module import Module
from tilewright.runtime.shared_library import MACHINES
from tilewright.target import DeviceTarget, Target, VtaTarget
from tilewright.tir.stmt import PrimFunc
from tilewright.vta.te.program import lower_schedule


def lower(
    inp: Any, args: Any = None, name: str = "main", binds: Mapping[Any, Any] | None = None, simple_mode: bool = False
) -> IRModule:
    """A module with the function `name` that runs the schedule `inp` on `args`; a function or module stays as it is.

    With `simple_mode`, for reading, the loops are only simplified; else parallel loops and calls of packed functions
    are still what they were, and `build` does the rest. Passes that the current `PassContext` adds
    (`tir.add_lower_pass`) run between the stages. Outputs that `args` leaves out are memory of the function itself.
    """
    if not isinstance(inp, te.Schedule):
        mod = _as_functions(inp)
        return IRModule({func.name: with_added(func) for func in mod.prim_funcs})
    if args is None:
        raise InputError("tvm.lower of a schedule takes the list of its arguments too")
    if simple_mode:  # to be read, a function may name what only a scan sees
        states = {state for stage in inp.stages if isinstance(stage.op, te.ScanOp) for state in stage.op.states}
        args = [arg for arg in args if arg not in states]
    stages = te.lower_stages(inp, args, name, binds, bounds_are_checked(), after=after_stage, keep_outputs=True)
    if simple_mode:
        return IRModule({name: next(func for stage, func in stages if stage == "simplify")})
    return IRModule({name: without_workers(stages)})


def lower_for_vta(
    schedule: te.Schedule, args: Any = None, name: str = "main", binds: Mapping[Any, Any] | None = None
) -> IRModule:
    """A module with the accelerator's calls for a schedule. Raises `UnsupportedError` for `binds`."""
    if binds:
        raise UnsupportedError("vta.lower(binds=…): arguments are compact buffers, one for each tensor")
    return IRModule({name: lower_schedule(get_env().machine, schedule, args or (), name)})


def schedule_to_module(
    sch: te.Schedule, args: Any = None, name: str = "main", binds: Mapping[Any, Any] | None = None
) -> IRModule:
    """A module with the loops of `sch` as they come from the schedule, before any pass."""
    return IRModule({name: te.schedule_to_tir(sch, args or (), name, binds, keep_outputs=True)})


def build(
    inputs: Any,
    args: Any = None,
    target: Any = None,
    target_host: Any = None,
    runtime: Any = None,
    name: str = "main",
    binds: Mapping[Any, Any] | None = None,
) -> CompiledModule:
    """Compile a schedule with its arguments, a function, several, or a module, for `target` (this processor if None).

    A mapping of one target to a module is that module for that target.

    For a target that this machine cannot run the result has source and object code, and calling it is refused.
    """
    if target is not None and not isinstance(inputs, Mapping) and isinstance(CurrentTarget(target), VtaTarget):
        scheduled = isinstance(inputs, te.Schedule)
        mod = lower_for_vta(inputs, args, name, binds) if scheduled else lower(inputs, args, name, binds)
        return program_of(mod.prim_funcs)
    mod = lower(inputs, args, name, binds)
    if isinstance(inputs, Mapping):
        target = next(iter(inputs))
    chosen = target if target is not None else CurrentTarget.current() or "llvm"
    return BuiltModule([lowered(func) for func in mod.prim_funcs], CurrentTarget(chosen))


def _as_functions(inp: Any) -> IRModule:
    if isinstance(inp, PrimFunc):
        return IRModule({inp.name: inp})
    if isinstance(inp, Mapping):
        if len(inp) != 1:
            raise UnsupportedError(f"a module is built for one target, not for {len(inp)}; build each by itself")
        return _as_functions(next(iter(inp.values())))
    if isinstance(inp, Sequence):
        return IRModule({func.name: func for part in inp for func in _as_functions(part).prim_funcs})
    if isinstance(inp, IRModule) and len(inp.prim_funcs) == len(inp.functions):
        return inp
    raise InputError(f"a schedule, a PrimFunc or a module of them is needed, not a {type(inp).__name__}")


class BuiltModule(CompiledModule, Exported):
    """Functions compiled for a target, with their text."""

    def __init__(self, funcs: Sequence[PrimFunc], target: Target) -> None:
        if not funcs:
            raise InputError("there is no function to build")
        offer_host_functions()
        self.funcs = [with_rules(func, target) for func in funcs]
        self.target, self.backend = target, backend_of(target)
        super().__init__([func.name for func in funcs], None)
        if isinstance(target, DeviceTarget):
            try:
                self._code = self.backend.build(self.funcs)
            except EnvironmentError_ as error:  # there is text to look at still; calling says what is missing
                self.missing = error
        elif target.is_host or target.architecture == "wasm32":
            try:
                self._code = self.backend.build(self.funcs)
            except ArtifactError as error:  # it calls what nothing in this process defines
                self.missing = error

    @property
    def type_key(self) -> str:  # type: ignore[override]
        """The code generator: "llvm", "c", "opencl", …"""
        return "llvm" if self.target.kind == "cpu" else self.target.kind

    @property
    def imported_modules(self) -> list[BuiltModule]:  # type: ignore[override]
        """The module itself for a device, whose kernels it holds; nothing for a processor."""
        return [self] if isinstance(self.target, DeviceTarget) else []

    def get_source(self, fmt: str = "") -> str:
        """The text of the functions in the target's language: LLVM IR, C, or that of a device's kernels.

        With the format "asm" or "s" of a processor its assembly.
        """
        if fmt not in ("", "ll", "c", "cl", "cu", "asm", "s"):
            raise UnsupportedError(f"get_source({fmt!r}): the formats are ll, asm, c, cl and cu")
        stages = self.backend.code_stages()
        if fmt in ("asm", "s"):
            if "asm" not in stages:
                raise UnsupportedError(
                    f"there is no assembly of code for {self.target.kind!r}; get_source() has its text"
                )
            return self.backend.code_text(self.funcs, "asm")
        return self.backend.code_text(sorted(self.funcs, key=lambda func: func.name), stages[0])

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write object code (`.o`), LLVM's bitcode (`.bc`) or the text of `get_source` (`.ll`, `.s`, `.c`, …).

        Object code and LLVM IR can be loaded again.
        """
        path = Path(file_name)
        kind = fmt or path.suffix.lstrip(".")
        if kind not in ("o", "obj", "bc", "ll"):
            path.write_text(self.get_source(kind))
            return
        if "llvm" not in self.backend.code_stages():
            raise UnsupportedError(f"object code for {self.target.kind!r} is made when it is built; save the text")
        assert isinstance(self.backend, CpuBackend)
        text = self.backend.emit(self.funcs).text
        if isinstance(self._code, Module):
            text += as_data(self._code, self.entry_name)
        path.write_bytes(self.backend.encoded(text, kind))

    def _export(self, path: str | os.PathLike[str]) -> None:
        """A library has the functions by the classic packed interface."""
        if is_library(path) and not isinstance(self.target, DeviceTarget) and self.target.architecture in MACHINES:
            write_functions(path, self._object_code(), self.entry_name)
            return
        if not hasattr(self._code, "save"):
            raise UnsupportedError(f"a module for {self.target} cannot be exported; save its text or object code")
        self._code.save(path)

    def _object_code(self) -> Compiled:
        """The functions as object code, which may be for another machine."""
        code = self._code
        if isinstance(code, Module):
            return Compiled(code.object_code, tuple(code.functions.values()), code.messages, code.target)
        made = self.backend.compiled(self.funcs, here=False)
        assert isinstance(made, Compiled)  # devices were left out by whoever asks
        return made
