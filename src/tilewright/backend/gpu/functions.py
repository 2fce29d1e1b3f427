"""Functions of the loop IR on devices of thread blocks: modules, and the text of their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.backend.backend import Backend
from tilewright.codegen.build_device import DeviceCompiled, build_device, emit_device
from tilewright.errors import UnsupportedError
from tilewright.runtime.gpu.nvrtc import compile_cubin, compile_ptx, disassembled
from tilewright.target import DeviceTarget
from tilewright.tir.stmt import PrimFunc

#: The name of each kind's language, where it is not the kind's own.
_LANGUAGES = {"vulkan": "glsl", "webgpu": "wgsl"}


class GpuFunctions(Backend):
    """The part of `GpuBackend` that makes code of functions."""

    @property
    def target(self) -> DeviceTarget:
        """The target, which is a device."""
        target = super().target
        assert isinstance(target, DeviceTarget)
        return target

    def build(self, funcs: Sequence[PrimFunc], threads: int | None = None) -> Any:
        """On the device of this machine; `threads` are the host's, which has nothing to share out."""
        return build_device(funcs, self.target)

    def compiled(self, funcs: Sequence[PrimFunc], here: bool = True) -> DeviceCompiled:
        """The functions' text, which the process that loads it compiles."""
        return DeviceCompiled(*emit_device(funcs, self.target), str(self.target))

    def code_stages(self) -> tuple[str, ...]:
        """The device's language, and for CUDA what NVRTC makes of it."""
        language = _LANGUAGES.get(self.target.kind, self.target.kind)
        return (language, "ptx", "sass") if self.target.kind == "cuda" and not self.target.emulate else (language,)

    def code_text(self, funcs: Sequence[PrimFunc], stage: str, lines: bool = False) -> str:
        """All kernels of the functions. Raises `EnvironmentError_` without the tools that PTX and SASS need."""
        if lines:
            raise UnsupportedError(f"the code for {self.target} has no source lines; use the stage tir")
        source, _ = emit_device(funcs, self.target)
        if stage == "ptx":
            return compile_ptx(source, self.target.arch).decode()
        return disassembled(compile_cubin(source, self.target.arch)) if stage == "sass" else source
