"""What the GPU languages share: a program of kernels as one text, and the checks before it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import Dialect
from tilewright.codegen.source.expressions import EXPRESSIONS
from tilewright.codegen.source.statements import statement
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.bind_threads import thread_extents
from tilewright.tir.transform.legalize_float16 import legalize_float16
from tilewright.tir.transform.lower_intrinsics import lower_intrinsics
from tilewright.tir.transform.scalarize_vectors import scalarize_vectors
from tilewright.tir.transform.split_host_device import DeviceProgram, Launch


@dataclass(frozen=True, kw_only=True)
class Language:
    """A GPU language: its dialect, the text before the kernels, and how a kernel's head is written.

    `head(launch, builder)` gives the lines that open a kernel, up to and with the brace; `native` names the math calls
    that need no polynomial.
    """

    dialect: Dialect
    prelude: str
    head: Callable[[Launch, SourceBuilder], str]
    native: frozenset[str]
    reserved: tuple[str, ...] = ()
    has_half: bool = False


def emit_program(programs: Sequence[DeviceProgram], language: Language) -> str:
    """The source text of all kernels of `programs`."""
    parts = [language.prelude]
    for program in programs:
        parts += [emit_kernel(launch, language) for launch in program.launches]
    return "\n\n".join(part for part in parts if part) + "\n"


def emit_kernel(launch: Launch, language: Language) -> str:
    """The text of one kernel."""
    kernel = prepare(launch.kernel, language)
    b = SourceBuilder(language.dialect, EXPRESSIONS)
    b.reserve(kernel.name, *language.reserved)
    head = language.head(Launch(kernel, launch.grid, launch.block), b)
    loops, body = thread_extents(kernel.body)
    for tag, loop in loops.items():
        b.analyzer.bind(loop.var, (loop.min, loop.extent))
        d = b.dialect
        value = d.threads[tag]
        b.line(d.constant.format(type=d.type_name(loop.var.dtype), name=b.name(loop.var), value=value))
    statement(b, body)
    return "\n".join([head, *["  " + line for line in b.top_lines], *b.lines, "}"])


def prepare(kernel: PrimFunc, language: Language) -> PrimFunc:
    """`kernel` in terms of what the language has."""
    kernel = scalarize_vectors(kernel)
    if not language.has_half:
        kernel = legalize_float16(kernel)
    return lower_intrinsics(kernel, native=language.native)
