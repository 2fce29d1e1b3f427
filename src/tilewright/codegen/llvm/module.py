"""Assembles functions into one LLVM module, with the packed entries by which the runtime calls them.

For a kernel ``k`` with parameters p0 … pn::

    i32 @k(ptr noalias p0, …, ptr ctx)       buffers as addresses, scalars by value; 0 or a failed assertion's code
    i32 @k__entry(ptr args, ptr ctx)         args: one 8-byte slot per parameter
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.llvm.builder import LOOPS, FunctionBuilder, Module, Value, symbol_of
from tilewright.codegen.llvm.debug import DebugInfo
from tilewright.codegen.llvm.emitter import EXPRESSIONS
from tilewright.codegen.llvm.imports import imports_of, with_imports
from tilewright.codegen.llvm.matrix_tiles import begin_tiles, release_tiles
from tilewright.codegen.llvm.statements import fact, statement
from tilewright.codegen.llvm.types import memory_type
from tilewright.errors import InternalError
from tilewright.runtime.native import KINDS
from tilewright.support import knobs
from tilewright.target import Target
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import SizeVar, Var
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.run_regions import by_region, regions_of

_SYMBOL = re.compile(r"[A-Za-z_$.][\w$.]*", re.ASCII)


@dataclass(frozen=True)
class EmittedModule:
    """LLVM IR text, and the messages that the functions' non-zero return codes (1-based) stand for."""

    text: str
    messages: tuple[str, ...]


def emit(funcs: Sequence[PrimFunc], target: Target, lines: bool | None = None) -> str:
    """The LLVM IR text of one module holding `funcs` and their packed entries."""
    return emit_module(funcs, target, lines).text


def emit_module(funcs: Sequence[PrimFunc], target: Target, lines: bool | None = None) -> EmittedModule:
    """Like `emit`, with the assertion messages. Raises `InternalError` if two functions share a name.

    With `lines`, by default what the knob TILEWRIGHT_DEBUG_INFO says, instructions carry the lines they were made of.
    """
    module = Module(target)
    module.metadata.append("!{}")
    module.debug = DebugInfo(module.metadata) if (knobs.DEBUG_INFO.get() if lines is None else lines) else None
    for func in funcs:
        if _SYMBOL.fullmatch(func.name) is None:
            raise InternalError(f"{func.name!r} cannot be a function's symbol; use letters, digits, '_', '.' and '$'")
        if func.name in module.defined:
            raise InternalError(f"two functions of one module are called {func.name!r}")
        module.defined[symbol_of(func.name)] = "i32"
    parts = []
    for func in funcs:
        if "regions" in func.attrs:
            parts += [emit_function(by_region(func), module), _regions(func, module)]
        else:
            parts += [emit_function(func, module), _entry(func)]
    declarations = [module.declarations[name] for name in sorted(module.declarations)]
    metadata = [f"!{i} = {text}" for i, text in enumerate(module.metadata)]
    width = target.vector_bits
    widths = f'"prefer-vector-width"="{width}" "min-legal-vector-width"="{width}"'
    attributes = f'attributes #0 = {{ nounwind noinline "no-builtins" {widths} }}'
    if target.half_feature_string:
        with_half = f'"target-features"="{target.half_feature_string}"'
        attributes += f'\nattributes #1 = {{ nounwind noinline "no-builtins" {widths} {with_half} }}'
    named = module.debug.named() if module.debug is not None else []
    tail = "\n".join([*named, *metadata])
    sections = [
        f'target triple = "{target.triple}"',
        *module.helpers.values(),
        *parts,
        "\n".join(declarations),
        attributes,
        tail,
    ]
    mark = LOOPS if module.needs_loop_passes else ""
    text, imports = "\n\n".join(x for x in sections if x) + "\n", imports_of(funcs)
    return EmittedModule(mark + (with_imports(text, imports) if imports else text), tuple(module.messages))


def emit_function(func: PrimFunc, module: Module) -> str:
    """The text of one function definition."""
    b = FunctionBuilder(module, EXPRESSIONS)
    exclusive = bool(func.attrs.get("noalias", True))
    parameters = []
    for i, param in enumerate(func.params):
        name = f"%p{i}"
        if isinstance(param, Buffer):
            b.buffers[param] = Value(name)
            if not exclusive:
                b.roots[param] = "parameters"
            parameters.append(f"ptr {'noalias ' if exclusive else ''}{name}")
        else:
            parameters.append(f"{memory_type(param.dtype)} {name}")
            _scalar_parameter(b, param, name)
    if module.debug is not None:
        b.lines = module.debug.begin(func)
    if b.lines is not None:
        b.location = b.lines.attachment(b.lines.first)
    statement(b, func.body)
    if b.tile_rows:
        release_tiles(b)
    b.block.terminator = "ret i32 0"
    first = begin_tiles(b, symbol_of(func.name)) if b.tile_rows else []
    b.blocks[0].lines[:0] = [] if first else b.allocas
    subprogram = f" !dbg {b.lines.subprogram}" if b.lines is not None else ""
    attributes = f"#{int(b.computes_half)}{subprogram}"
    lines = [
        f"define i32 @{symbol_of(func.name)}({', '.join([*parameters, 'ptr noalias %ctx'])}) {attributes} {{",
        *first,
    ]
    for block in b.blocks:
        if not block.terminator:
            raise InternalError(f"block {block.label} of {func.name} has no terminator")
        lines += [f"{block.label}:", *block.phis, *block.lines, "  " + block.terminator]
    lines.append("}")
    return "\n".join(lines)


def _scalar_parameter(b: FunctionBuilder, param: Var, name: str) -> None:
    value = Value(name)
    if param.dtype.is_bool:
        value = b.define(f"icmp ne i8 {name}, 0")
    b.bind(param, value)
    fact(b, param, isinstance(param, SizeVar))


#: `main__run(slots, threads)` has the pool share out the kernels of a run loop; its packed entry runs them in order.
_REGIONS = """\
@{name}__kinds = constant [{count} x i8] [{kinds}]
@{name}__state = global [8 x i64] zeroinitializer, align 64
define i32 @{name}__run(ptr %args, i32 %threads) #0 {{
  %code = tail call i32 @tilewright_run(ptr @{name}__region, ptr @{name}__kinds, i32 {count}, ptr %args, i32 %threads, \
ptr @{name}__state)
  ret i32 %code
}}
define i32 @{name}__entry(ptr %args, ptr %ctx) #0 {{
  %code = tail call i32 @tilewright_regions(ptr @{name}__region, i32 {count}, ptr %args, ptr %ctx)
  ret i32 %code
}}"""


def _regions(func: PrimFunc, module: Module) -> str:
    """The entry point by which the runtime runs a run loop."""
    module.declare("tilewright_run", "i32", "ptr, ptr, i32, ptr, i32, ptr")
    module.declare("tilewright_regions", "i32", "ptr, i32, ptr, ptr")
    numbers = [f"i8 {KINDS[kind]}" for kind, _ in regions_of(func)]
    text = _REGIONS.format(name=func.name, count=len(numbers), kinds=", ".join(numbers))
    return f"{_entry(func, 'region')}\n{text}"


def _entry(func: PrimFunc, name: str = "entry") -> str:
    """The packed entry: unpacks the slots and calls the function, whose first parameter may be many of them."""
    linkage = "" if name == "entry" else "internal "
    lines = [f"define {linkage}i32 @{func.name}__{name}(ptr %args, ptr %ctx) #0 {{", "entry:"]
    first = func.attrs.get("slots")
    arguments = [] if first is None else ["ptr %args"]
    for i, param in enumerate(func.params[len(arguments) :], first or 0):
        kind = "ptr" if isinstance(param, Buffer) else memory_type(param.dtype)
        lines.append(f"  %s{i} = getelementptr i8, ptr %args, i64 {8 * i}")
        lines.append(f"  %a{i} = load {kind}, ptr %s{i}, align 8")
        arguments.append(f"{kind} %a{i}")
    lines.append(f"  %code = call i32 @{symbol_of(func.name)}({', '.join([*arguments, 'ptr %ctx'])})")
    return "\n".join([*lines, "  ret i32 %code", "}"])
