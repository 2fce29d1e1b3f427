"""C: the kernels of processors as C99, compiled by this machine's C compiler, or handed out as source."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tilewright.backend.cpu.backend import CpuBackend
from tilewright.codegen.kernel_code import for_c
from tilewright.codegen.source.c import emit_c, emit_static_c
from tilewright.codegen.source.compile_c import compile_c
from tilewright.tir.stmt import PrimFunc


class CBackend(CpuBackend):
    """The target "c": a processor of which only its C compiler is known."""

    def dot_operands(self) -> tuple[str, str] | None:
        """None: C has no dot products of bytes."""
        return None

    def code(self, funcs: Sequence[PrimFunc]) -> tuple[bytes, float]:
        """One ELF object, by way of C."""
        start = time.perf_counter()
        text = emit_c(for_c(funcs, self.target)).text
        seconds = time.perf_counter() - start
        return compile_c(text, self.target), seconds


class SourceBackend(CpuBackend):
    """Source for one thread: static functions of C99, which follow the text of `c_prelude`; any processor's tiles."""

    @property
    def is_here(self) -> bool:
        """False: the source may be for a machine of another size."""
        return False

    def code(self, funcs: Sequence[PrimFunc]) -> tuple[bytes, float]:
        """The text."""
        start = time.perf_counter()
        return emit_static_c(for_c(funcs, self.target)).text.encode(), time.perf_counter() - start
