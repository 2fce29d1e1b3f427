"""C: the kernels of processors as C99, compiled by this machine's C compiler, or handed out as source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tilewright import te
from tilewright.backend.cpu.backend import CpuBackend
from tilewright.codegen.kernel_code import for_c
from tilewright.codegen.source.c import EmittedSource, emit_c, emit_static_c
from tilewright.codegen.source.compile_c import compile_c
from tilewright.errors import UnsupportedError
from tilewright.relay.transform.manager.pass_manager import PassContext, register_config_option
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.mask_choices import mask_choices
from tilewright.tir.transform.pipeline import C

MASK_CHOICES = "tir.mask_choices"
register_config_option(MASK_CHOICES, "C source chooses between values by masks, where a compiler could make a branch")


class CBackend(CpuBackend):
    """The target "c": a processor of which only its C compiler is known."""

    def dot_operands(self) -> tuple[str, str] | None:
        """None: C has no dot products of bytes."""
        return None

    def multiplies_pairs(self) -> bool:
        """False: C has none of bfloat16."""
        return False

    def lower_stages(self, s: te.Schedule, args: Sequence[Any], name: str) -> Iterator[tuple[str, PrimFunc]]:
        """The pipeline of C."""
        return te.lower_stages(s, args, name, target=self.target, pipeline=C)

    def emit(self, funcs: Sequence[PrimFunc], lines: bool | None = None) -> EmittedSource:
        """C99."""
        return emit_c(for_c(funcs, self.target))

    def assemble(self, text: str) -> bytes:
        """By the C compiler."""
        return compile_c(text, self.target)

    def code_stages(self) -> tuple[str, ...]:
        """The source."""
        return ("c",)

    def code_text(self, funcs: Sequence[PrimFunc], stage: str, lines: bool = False) -> str:
        """The source, without source lines."""
        if lines:
            raise UnsupportedError("the source in C has no source lines; use the stage tir or the target llvm")
        return self.emit(funcs).text


class SourceBackend(CBackend):
    """Source for one thread: static functions of C99, which follow the text of `c_prelude`; any processor's tiles."""

    @property
    def is_here(self) -> bool:
        """False: the source may be for a machine of another size."""
        return False

    def check_machine(self) -> None:
        """Any will do: the code is for one thread."""

    def emit(self, funcs: Sequence[PrimFunc], lines: bool | None = None) -> EmittedSource:
        """Static functions; within `PassContext(config={"tir.mask_choices": True})` without choices by data."""
        made = for_c(funcs, self.target)
        if PassContext.current().config.get(MASK_CHOICES):
            made = [mask_choices(func) for func in made]
        return emit_static_c(made)

    def assemble(self, text: str) -> bytes:
        """The text."""
        return text.encode()
