"""The shared part of the GPU languages: a program of kernels as one text, and the checks before it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import Dialect
from tilewright.codegen.source.expressions import EXPRESSIONS
from tilewright.codegen.source.statements import statement
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Call
from tilewright.tir.stmt import Allocate, BufferStore, PrimFunc
from tilewright.tir.transform.bind_threads import thread_extents
from tilewright.tir.transform.pipeline import KERNEL, result
from tilewright.tir.transform.split_host_device import DeviceProgram, Launch
from tilewright.tir.transform.statements import walk
from tilewright.tir.visitor import collect
from tilewright.tir.warp_matrix import FRAGMENT_SCOPES

#: Functions of float32 that the languages of all devices have; they are as exact as the device's own.
NATIVE = frozenset(
    {
        "exp", "log", "log2", "log10", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh",
        "acosh", "atanh",
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Language:
    """A GPU language: its dialect, the text before the kernels, and how a kernel's head is written.

    `head(launch, builder)` returns the lines that open a kernel, up to and with the brace; `native` names the math
    calls that need no polynomial; `widest_access` are the bytes of the widest load of a vector from memory (0:
    elements move alone); `has_vector` tells which stores of vectors have a text, others
    go lane by lane; `functions` is the text of those that some of the kernels' calls need; with
    `module_scope`, shared arrays and buffers are declared outside of functions, so that names must differ between
    the kernels of a text. `divider` is the line before each kernel of a text that is taken apart again. Compilers
    of a language that `reorders_sums` may take `(a + b) - b` to be a; with `hoists`, some leave in a loop what it does
    not change. `for_fragments` is the language to write programs in that use tensor cores, where it differs.
    """

    dialect: Dialect
    prelude: str
    head: Callable[[Launch, SourceBuilder], str]
    native: frozenset[str]
    reserved: tuple[str, ...] = ()
    module_scope: bool = False
    divider: str = ""
    reorders_sums: bool = False
    hoists: bool = False
    for_fragments: Language | None = None
    widest_access: int = 0
    functions: Callable[[Iterable[Call]], str] | None = None
    has_vector: Callable[[BufferStore], bool] | None = None


def parameter_list(launch: Launch, b: SourceBuilder, buffer: str, scalar: str) -> list[str]:
    """The declarations of a kernel's parameters, by templates of {const}, {type}, {name} and {position}."""
    declared = []
    flags = zip(launch.kernel.params, launch.kernel.attrs["written"], strict=True)
    for position, (param, written) in enumerate(flags):
        is_buffer = isinstance(param, Buffer)
        kind = b.dialect.memory_type(param.dtype) if is_buffer else b.dialect.type_name(param.dtype)
        template, const = (buffer if is_buffer else scalar), ("" if written else "const ")
        declared.append(template.format(const=const, type=kind, name=b.name(param), position=position))
    return declared


def emit_program(programs: Sequence[DeviceProgram], language: Language) -> str:
    """The source text of all kernels of `programs`."""
    if language.for_fragments is not None and any(_has_fragments(program) for program in programs):
        language = language.for_fragments
    parts = [language.prelude]
    if language.functions is not None:
        parts.append(language.functions(collect([launch.kernel.body for p in programs for launch in p.launches], Call)))
    taken: set[str] = set()
    for program in programs:
        parts += [emit_kernel(launch, language, taken) for launch in program.launches]
    return "\n\n".join(part for part in parts if part) + "\n"


def _has_fragments(program: DeviceProgram) -> bool:
    bodies = [stmt for launch in program.launches for stmt in walk(launch.kernel.body)]
    return any(isinstance(stmt, Allocate) and stmt.buffer.scope in FRAGMENT_SCOPES for stmt in bodies)


def emit_kernel(launch: Launch, language: Language, taken: set[str]) -> str:
    """The text of one kernel; where names must differ between kernels, those in `taken` are, and it adds its own."""
    kernel = prepare(launch.kernel, language)
    b = SourceBuilder(language.dialect, EXPRESSIONS)
    b.reserve(kernel.name, *language.reserved, *(taken if language.module_scope else ()))
    head = language.head(Launch(kernel, launch.grid, launch.block), b)
    loops, body = thread_extents(kernel.body)
    for tag, loop in loops.items():
        b.analyzer.bind(loop.var, (loop.min, loop.extent))
        d = b.dialect
        kind, value = d.type_name(loop.var.dtype), d.threads[tag]
        b.line(d.constant_line(kind, b.name(loop.var), value))
    statement(b, body)
    taken |= b.taken
    if language.module_scope:
        divider = [language.divider.format(name=kernel.name)] if language.divider else []
        return "\n".join([*divider, *b.top_lines, head, *b.lines, "}"])
    return "\n".join([head, *["  " + line for line in b.top_lines], *b.lines, "}"])


def prepare(kernel: PrimFunc, language: Language) -> PrimFunc:
    """`kernel` in terms of what the language has."""
    return result(KERNEL, kernel, language)
