"""Functions of the loop IR on processors: text by LLVM's IR, object code, and modules that this process calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backend.backend import Backend
from tilewright.backend.compiled import Compiled
from tilewright.codegen.function_info import function_info
from tilewright.codegen.llvm import EmittedModule, assembly, bitcode, compile_object, emit_module, with_source_lines
from tilewright.codegen.source import EmittedSource
from tilewright.errors import TargetError
from tilewright.support.trace import span
from tilewright.target import DeviceTarget, Target
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_threads import has_threads
from tilewright.tir.transform.plan_allocations import workspace_size


class CpuFunctions(Backend):
    """The part of `CpuBackend` that makes code of functions."""

    def emit(self, funcs: Sequence[PrimFunc], lines: bool | None = None) -> EmittedModule | EmittedSource:
        """The text of lowered functions, with `lines` marked with the source lines that they are made of."""
        return emit_module(funcs, self.target, lines)

    def assemble(self, text: str) -> bytes:
        """The object code of such a text."""
        return compile_object(text, self.target)

    def build(self, funcs: Sequence[PrimFunc], threads: int | None = None) -> Any:
        """Object code in this process."""
        return self.compiled(funcs).load(threads)

    def compiled(self, funcs: Sequence[PrimFunc], here: bool = True) -> Compiled:
        """One object, with functions that compute symbolic sizes of workspaces."""
        self.refuse_threads(funcs)
        if here and not self.target.is_host:
            raise TargetError(
                f"this machine ({Target.host()}) cannot run code for {self.target}; emit an object file instead"
            )
        sizes = [size for size in map(workspace_size, funcs) if size is not None]
        with span("codegen"):
            emitted = self.emit([*funcs, *sizes])
        with span("assemble"):
            code = self.assemble(emitted.text)
        return Compiled(code, tuple(map(function_info, funcs)), emitted.messages, str(self.target))

    def code_stages(self) -> tuple[str, ...]:
        """LLVM IR, and the assembly of the processor."""
        return ("llvm", "asm")

    def code_text(self, funcs: Sequence[PrimFunc], stage: str, lines: bool = False) -> str:
        """Before LLVM's passes, or after all of them."""
        text = self.emit(funcs, lines or None).text
        if stage == "llvm":
            return text
        made = assembly(text, self.target)
        return with_source_lines(made) if lines else made

    def encoded(self, text: str, form: str) -> bytes:
        """LLVM IR as it is stored: as text ("ll"), in LLVM's binary form ("bc"), otherwise as object code."""
        if form == "ll":
            return text.encode()
        return bitcode(text, self.target) if form == "bc" else compile_object(text, self.target)

    def refuse_threads(self, funcs: Sequence[PrimFunc]) -> None:
        """Raise `TargetError` for loops bound to the threads of a device."""
        for func in funcs:
            if has_threads(func):
                raise TargetError(
                    f"{func.name} has loops bound to device threads; build it for: {', '.join(DeviceTarget.KINDS)}"
                )
