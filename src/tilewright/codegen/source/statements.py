"""Text of statements: stores, loops, branches, storage, synchronization."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.source.builder import SourceBuilder
from tilewright.codegen.source.dialect import entry
from tilewright.codegen.source.expressions import atom, flat_index, register_name, to_memory
from tilewright.codegen.source.vector_registers import register_vectors
from tilewright.codegen.source.vector_runs import VectorRun, vector_runs, write_run
from tilewright.errors import InternalError, UnsupportedError
from tilewright.support.recursion import nested
from tilewright.tir import stmt as s
from tilewright.tir.expr import Call, Expr, IntImm, Ramp, StringImm
from tilewright.tir.statement_table import statement_table
from tilewright.tir.tensor_core import is_tensor_core_call
from tilewright.tir.warp_matrix import FRAGMENT_SCOPES, is_fragment_call

_SERIAL = (s.ForKind.SERIAL, s.ForKind.VECTORIZED, s.ForKind.UNROLLED)


@nested
def statement(b: SourceBuilder, stmt: s.Stmt) -> None:
    """Write `stmt` at the current position."""
    emit = _STATEMENTS.get(type(stmt))
    if emit is None:
        raise InternalError(f"no {b.dialect.name} code for statement {type(stmt).__name__}")
    with b.at(stmt.position):
        emit(b, stmt)


def _sequence(b: SourceBuilder, stmt: s.SeqStmt) -> None:
    for part in vector_runs(b, stmt.stmts) if b.dialect.joined_stores else stmt.stmts:
        if isinstance(part, VectorRun):
            write_run(b, part)
        else:
            statement(b, part)


def _store(b: SourceBuilder, stmt: s.BufferStore) -> None:
    index = flat_index(stmt.buffer, stmt.indices)
    if stmt.buffer.scope in FRAGMENT_SCOPES:
        raise UnsupportedError(
            f"{stmt.buffer.name} is written element by element, but lies in {stmt.buffer.scope}, whose elements "
            "are not supported; tensorize the stage with an intrinsic of te.wmma"
        )
    registers = b.registers.get(stmt.buffer)
    if registers and isinstance(index, Ramp) and isinstance(index.base, IntImm) and index.base.value not in registers:
        return  # what lies beyond the edge of an image: nothing reads it
    b.statement(stmt.value, index)
    if stmt.buffer.scope == "global" and entry(stmt.value.dtype) in b.dialect.stores:
        parts = {"name": b.name(stmt.buffer), "index": atom(b, index), "value": atom(b, stmt.value)}
        for line in b.dialect.stores[entry(stmt.value.dtype)]:
            b.line(line.format(**parts))
        return
    if isinstance(index, Ramp):
        if stmt.buffer in b.registers:
            b.line(f"{register_name(b, stmt.buffer, index)} = {b.value(stmt.value)};")
            return
        parts = {"name": b.name(stmt.buffer), "index": b.value(index.base), "value": b.value(stmt.value)}
        space, lanes = b.dialect.spaces[stmt.buffer.scope], stmt.value.dtype.lanes
        b.line(b.dialect.vector_store.format(lanes=lanes, space=space, **parts))
        return
    value = to_memory(b, stmt.value.dtype, b.value(stmt.value))
    b.line(f"{b.name(stmt.buffer)}[{b.value(index)}] = {value};")


def _allocate(b: SourceBuilder, stmt: s.Allocate) -> None:
    buffer, d = stmt.buffer, b.dialect
    size = buffer.constant_size()
    if size is None:
        raise UnsupportedError(f"local buffer {buffer!r} has a symbolic size; {d.name} code needs a constant shape")
    if buffer.scope in d.arrays:
        _declared(b, buffer, d.arrays[buffer.scope](b, buffer), stmt.body)
        return
    if buffer.scope not in d.scopes:
        raise UnsupportedError(f"{d.name} code has no storage scope {buffer.scope!r}; it has: {', '.join(d.scopes)}")
    b.registers.pop(buffer, None)  # copies of a loop's body may use it in different ways
    lanes, firsts = register_vectors(stmt) if d.vector_type else (0, [])
    if lanes:
        names = [b.name((buffer, first), f"{b.name(buffer)}_{first}") for first in firsts]
        b.registers[buffer] = dict(zip(firsts, names))
        kind = d.vector_type.format(type=d.memory_type(buffer.dtype), lanes=lanes)
        _declared(b, buffer, f"{kind} {', '.join(names)};", stmt.body)
        return
    text = d.array.format(
        scope=d.scopes[buffer.scope], type=d.memory_type(buffer.dtype), name=b.name(buffer), size=size
    )
    if buffer.scope == "shared":  # the parts of a loop that was cut share one array
        b.top_lines += [text] if text not in b.top_lines else []
        statement(b, stmt.body)
    else:
        _declared(b, buffer, text, stmt.body)


def _declared(b: SourceBuilder, thing: Any, text: str, body: s.Stmt) -> None:
    """The declaration `text`, then `body`; in a block of their own where copies of a loop's body declare it again."""
    if thing in b.declared:
        with b.block("{"):
            b.line(text)
            statement(b, body)
    else:
        b.declared.add(thing)
        b.line(text)
        statement(b, body)


def _declare(b: SourceBuilder, stmt: s.DeclBuffer) -> None:
    if not b.dialect.pointers:
        raise UnsupportedError(f"{b.dialect.name} code cannot view memory as {stmt.buffer!r}")
    b.statement(stmt.address)
    kind = b.dialect.memory_type(stmt.buffer.dtype)
    _declared(b, stmt.buffer, f"{kind}* {b.name(stmt.buffer)} = ({kind}*){b.value(stmt.address)};", stmt.body)


def _branch(b: SourceBuilder, stmt: s.IfThenElse) -> None:
    choice = b.dialect.choices.get(stmt.condition.op) if isinstance(stmt.condition, Call) else None
    if choice is not None:
        for line, side in zip(choice, (stmt.then_case, stmt.else_case)):
            b.line(line)
            with b.block("{"):
                if side is not None:
                    statement(b, side)
        b.line(choice[-1])
        return
    b.statement(stmt.condition)
    condition = b.value(stmt.condition)
    with b.block(f"if ({condition}) {{"), b.analyzer.constraint(stmt.condition):
        statement(b, stmt.then_case)
    if stmt.else_case is not None:
        with b.block("else {"):
            statement(b, stmt.else_case)


def _for(b: SourceBuilder, stmt: s.For) -> None:
    if stmt.kind not in _SERIAL:
        raise InternalError(f"a {stmt.kind.value} loop over {stmt.var.name!r} reached codegen; lower it first")
    end = stmt.extent if _is_zero(stmt.min) else stmt.min + stmt.extent
    b.statement(stmt.min, end)
    b.analyzer.bind(stmt.var, (stmt.min, stmt.extent))
    first, last = b.value(stmt.min), b.value(end)
    if b.dialect.unroll and "unroll_hint" in stmt.annotations:
        b.line(b.dialect.unroll if stmt.annotations["unroll_hint"] else f"{b.dialect.unroll} 1")
    head = b.dialect.loop.format(type=b.dialect.type_name(stmt.var.dtype), name=b.name(stmt.var), first=first, end=last)
    with b.block(head):
        statement(b, stmt.body)


def _is_zero(x: Expr) -> bool:
    return isinstance(x, IntImm) and x.value == 0


def _while(b: SourceBuilder, stmt: s.While) -> None:
    with b.block(b.dialect.loop_forever):
        b.statement(stmt.condition)
        with b.block(f"if (!({b.value(stmt.condition)})) {{"):
            b.line("break;")
        statement(b, stmt.body)


def _let(b: SourceBuilder, stmt: s.LetStmt) -> None:
    b.statement(stmt.value)
    d = b.dialect
    value = b.value(stmt.value)
    text = d.constant_line(d.type_name(stmt.var.dtype), b.name(stmt.var), value)
    if stmt.var.dtype.is_int:
        b.analyzer.bind(stmt.var, stmt.value)
    _declared(b, stmt.var, text, stmt.body)


def _assert(b: SourceBuilder, stmt: s.AssertStmt) -> None:
    if not b.dialect.fail:
        raise UnsupportedError(
            f"{b.dialect.name} code cannot stop with a message ({stmt.message!r}); check on the host"
        )
    b.statement(stmt.condition)
    if stmt.message not in b.messages:
        b.messages.append(stmt.message)
    code = b.messages.index(stmt.message) + 1
    b.line(b.dialect.fail.format(condition=b.value(stmt.condition), code=code))
    statement(b, stmt.body)


def _evaluate(b: SourceBuilder, stmt: s.Evaluate) -> None:
    call = stmt.value
    if not isinstance(call, Call):
        return
    if (is_fragment_call(call) or is_tensor_core_call(call)) and call.op not in b.dialect.effects:
        raise UnsupportedError(f"{b.dialect.name} code has no tensor cores for {call.op}; build for cuda")
    effect = b.dialect.effects.get(call.op) or _EFFECTS.get(call.op)
    if effect is not None:
        b.statement(*call.args)
        effect(b, call)


def _barrier(b: SourceBuilder, call: Call) -> None:
    scope = call.args[0].value if call.args and isinstance(call.args[0], StringImm) else "workers"
    if scope not in b.dialect.barriers:
        raise UnsupportedError(f"{b.dialect.name} code has no barrier for {scope!r} memory")
    b.line(b.dialect.barriers[scope])


def _extern(b: SourceBuilder, call: Call) -> None:
    b.line(f"{b.value(call)};")


def _call_function(b: SourceBuilder, call: Call) -> None:
    name, *arguments = call.args
    if not isinstance(name, StringImm) or not b.dialect.call_function:
        raise UnsupportedError(f"{b.dialect.name} code cannot call another kernel: {call!r}")
    listed = "".join(f"{b.value(a)}, " for a in arguments)
    b.line(b.dialect.call_function.format(name=name.value, arguments=listed))


_EFFECTS: dict[str, Callable[[SourceBuilder, Call], None]] = {
    "barrier": _barrier,
    "storage_sync": _barrier,
    "call_extern": _extern,
    "call_function": _call_function,
}

_STATEMENTS = statement_table(
    statement,
    store=_store,
    evaluate=_evaluate,
    let=_let,
    check=_assert,
    allocate=_allocate,
    declare=_declare,
    branch=_branch,
    loop=_for,
    while_loop=_while,
)
_STATEMENTS[s.SeqStmt] = _sequence
