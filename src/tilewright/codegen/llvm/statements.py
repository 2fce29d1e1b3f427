"""LLVM code for statements: loops, branches, stores, storage, assertions."""

from __future__ import annotations

from typing import Any

from tilewright.codegen.llvm.builder import EVERYTHING, NOTHING, Block, FunctionBuilder, Value
from tilewright.codegen.llvm.calls import effect
from tilewright.codegen.llvm.facts import nonnegative
from tilewright.codegen.llvm.memory import flat_index, store, wide
from tilewright.codegen.llvm.types import memory_type
from tilewright.errors import InternalError, UnsupportedError
from tilewright.support.recursion import nested
from tilewright.tir import stmt as s
from tilewright.tir.expr import Call, Expr, IntImm
from tilewright.tir.statement_table import statement_table

STACK_LIMIT = 512 * 1024  # bytes one local buffer may take of a worker's stack


@nested
def statement(b: FunctionBuilder, stmt: s.Stmt) -> None:
    """Emit `stmt` at the end of the current block."""
    emit = _STATEMENTS.get(type(stmt))
    if emit is None:
        raise InternalError(f"no LLVM code for statement {type(stmt).__name__}")
    if b.lines is None or stmt.position is None:
        emit(b, stmt)
        return
    around, b.location = b.location, b.lines.attachment(stmt.position)
    emit(b, stmt)
    b.location = around


@nested
def written(b: FunctionBuilder, stmt: s.Stmt | None) -> frozenset[Any]:
    """Roots of the buffers that `stmt` may write; `EVERYTHING` if it calls what may write anything."""
    if stmt is None:
        return NOTHING
    found = b.writes.get(stmt)
    if found is None:
        kind = type(stmt)
        if kind is s.BufferStore:
            found = frozenset((b.root(stmt.buffer),))  # type: ignore[attr-defined]
        elif kind is s.Evaluate:
            found = _effects(stmt.value)  # type: ignore[attr-defined]
        elif kind is s.SeqStmt:
            found = NOTHING.union(*(written(b, x) for x in stmt.stmts))  # type: ignore[attr-defined]
        elif kind is s.IfThenElse:
            found = written(b, stmt.then_case) | written(b, stmt.else_case)  # type: ignore[attr-defined]
        else:
            found = written(b, stmt.body)  # type: ignore[attr-defined]
        b.writes[stmt] = found
    return found


def _effects(value: Expr) -> frozenset[Any]:
    harmless = not isinstance(value, Call) or value.op in (
        "prefetch",
        "likely",
        "tile_zero",
        "tile_load",
        "tile_product",
    )
    return NOTHING if harmless else frozenset((EVERYTHING,))


# ------------------------------------------------------------------------------------------------ simple ones
def _store(b: FunctionBuilder, stmt: s.BufferStore) -> None:
    index = flat_index(stmt.buffer, stmt.indices)
    if index.dtype.lanes != stmt.value.dtype.lanes:
        raise UnsupportedError(
            f"store of {stmt.value.dtype} to {stmt.buffer.name}: the value has {stmt.value.dtype.lanes} lanes, "
            f"the index {index.dtype.lanes}; elements are scalars, so pass an index for each lane (a Ramp)"
        )
    store(b, stmt.buffer, index, b.value(stmt.value), stmt.value.dtype)


def _evaluate(b: FunctionBuilder, stmt: s.Evaluate) -> None:
    effect(b, stmt.value)


def _let(b: FunctionBuilder, stmt: s.LetStmt) -> None:
    value = b.value(stmt.value)
    b.wide_variables.pop(stmt.var, None)
    b.bind(stmt.var, value)
    fact(b, stmt.var, stmt.value.dtype.is_int and nonnegative(b, stmt.value))
    statement(b, stmt.body)


def _assert(b: FunctionBuilder, stmt: s.AssertStmt) -> None:
    code = b.module.message_code(stmt.message)
    condition = b.value(stmt.condition)
    fail, go_on = b.new_block("fail"), b.new_block("checked")
    b.block.terminator = f"br i1 {condition.text}, label %{go_on.label}, label %{fail.label}"
    fail.terminator = f"ret i32 {code}"
    b.scopes[-1].block = go_on
    statement(b, stmt.body)


def _allocate(b: FunctionBuilder, stmt: s.Allocate) -> None:
    buffer = stmt.buffer
    if buffer not in b.buffers:
        size = buffer.constant_size()
        if size is None:
            raise UnsupportedError(f"local buffer {buffer!r} has a symbolic size; use a constant shape")
        if size * buffer.dtype.itemsize * buffer.dtype.lanes > STACK_LIMIT:
            raise UnsupportedError(
                f"local buffer {buffer!r} needs more than {STACK_LIMIT} bytes of stack; use scope 'global' for it"
            )
        name = f"%a{len(b.allocas)}"
        b.allocas.append(f"  {name} = alloca [{size} x {memory_type(buffer.dtype)}], align 64")
        b.buffers[buffer] = Value(name)
    statement(b, stmt.body)


def _declare(b: FunctionBuilder, stmt: s.DeclBuffer) -> None:
    pointer = b.value(stmt.address)
    known = b.buffers.get(stmt.buffer)
    if known is not None and known.text != pointer.text:
        b.memo = {  # without values read from memory, and addresses
            key: value
            for key, value in b.memo.items()
            if isinstance(key, Expr) and not value.reads and key.dtype != "handle"
        }
    b.buffers[stmt.buffer] = Value(pointer.text, pointer.depth)
    statement(b, stmt.body)


def fact(b: FunctionBuilder, expr: Expr, is_nonnegative: bool) -> None:
    """Record whether a variable just bound may be negative; facts about a reused variable are dropped."""
    if b.nonnegative.get(expr, is_nonnegative) != is_nonnegative:
        b.nonnegative.clear()
    b.nonnegative[expr] = is_nonnegative


# ------------------------------------------------------------------------------------------------ control flow
def _branch(b: FunctionBuilder, stmt: s.IfThenElse) -> None:
    condition = b.value(stmt.condition)
    then_block = b.new_block("then")
    before = b.block
    end_then = _conditional(b, then_block, stmt.then_case)
    if stmt.else_case is None:
        after = b.new_block("join")
        before.terminator = f"br i1 {condition.text}, label %{then_block.label}, label %{after.label}"
    else:
        else_block = b.new_block("else")
        before.terminator = f"br i1 {condition.text}, label %{then_block.label}, label %{else_block.label}"
        end_else = _conditional(b, else_block, stmt.else_case)
        after = b.new_block("join")
        end_else.terminator = f"br label %{after.label}"
    end_then.terminator = f"br label %{after.label}"
    b.scopes[-1].block = after


def _conditional(b: FunctionBuilder, block: Block, body: s.Stmt) -> Block:
    """Emit `body` into `block`, which runs under a condition; returns the block it ends in."""
    b.open("branch", block)
    statement(b, body)
    return b.close()


def _for(b: FunctionBuilder, stmt: s.For) -> None:
    """A counted loop, tested at its end; a trip count that may be 0 is tested before.

    ::

        pre:   br i1 (extent > 0), body, after        (only if the extent is not a constant)
        body:  i = phi [min, pre], [i + 1, latch]; ...; br i1 (i + 1 < end), body, after
    """
    if stmt.kind is not s.ForKind.SERIAL:
        raise InternalError(f"a {stmt.kind.value} loop over {stmt.var.name!r} reached codegen; lower it first")
    extent = stmt.extent.value if isinstance(stmt.extent, IntImm) else None
    if extent is not None and extent <= 0:
        return
    writes = written(b, stmt.body)
    first, count = wide(b, stmt.min), wide(b, stmt.extent)
    before = after = b.block
    if extent is None:
        some = b.define(f"icmp sgt {b.index} {count.text}, 0", count)
        guarded, after = b.new_block("some"), b.new_block("done")
        before.terminator = f"br i1 {some.text}, label %{guarded.label}, label %{after.label}"
        b.open("guard", guarded)
    end = _loop_end(b, stmt.min, first, extent, count)
    _loop_body(b, stmt, first, end, writes)
    if extent is None:
        b.close().terminator = f"br label %{after.label}"
        b.scopes[-1].block = after


def _loop_end(b: FunctionBuilder, low: Expr, first: Value, extent: int | None, count: Value) -> Value:
    if isinstance(low, IntImm) and extent is not None:
        return Value(str(low.value + extent))
    return count if first.text == "0" else b.defined_once(f"add nsw {b.index} {first.text}, {count.text}", first, count)


def _loop_body(b: FunctionBuilder, stmt: s.For, first: Value, end: Value, writes: frozenset[Any]) -> None:
    if EVERYTHING in writes:
        b.forget_all_reads()
    for root in writes:
        b.forget(root)
    before = b.block
    body = b.new_block("loop")
    before.terminator = f"br label %{body.label}"
    b.open("loop", body, writes)
    counter = f"%i{len(b.blocks)}"
    b.memo.pop(stmt.var, None)
    b.memo.pop(("wide", stmt.var), None)
    b.wide_variables[stmt.var] = Value(counter, b.depth)
    fact(b, stmt.var, nonnegative(b, stmt.min))
    statement(b, stmt.body)
    latch = b.block
    after = b.new_block("after")
    flags = "nuw nsw" if first.text == "0" else "nsw"
    b.line(f"{counter}.next = add {flags} {b.index} {counter}, 1")
    b.line(f"{counter}.more = icmp slt {b.index} {counter}.next, {end.text}")
    loop = b.module.loop_metadata(_loop_properties(b, stmt))
    latch.terminator = f"br i1 {counter}.more, label %{body.label}, label %{after.label}, !llvm.loop {loop}"
    body.phis.append(
        f"  {counter} = phi {b.index} [ {first.text}, %{before.label} ], [ {counter}.next, %{latch.label} ]"
    )
    b.close()
    b.scopes[-1].block = after


def _loop_properties(b: FunctionBuilder, stmt: s.For) -> list[str]:
    """The loop properties passed to LLVM: none, unless an annotation requests one."""
    unroll = int(stmt.annotations.get("unroll", 0))
    properties = ['!"llvm.loop.vectorize.enable", i1 false']
    if unroll > 1:
        b.module.needs_loop_passes = True
        return [*properties, f'!"llvm.loop.unroll.count", i32 {unroll}']
    return [*properties, '!"llvm.loop.unroll.disable"']


def _while(b: FunctionBuilder, stmt: s.While) -> None:
    writes = written(b, stmt.body) | _effects(stmt.condition)
    b.forget_all_reads()
    test, after = b.new_block("while"), b.new_block("after")
    b.block.terminator = f"br label %{test.label}"
    b.open("loop", test, writes)
    condition = b.value(stmt.condition)
    body = b.new_block("body")
    b.block.terminator = f"br i1 {condition.text}, label %{body.label}, label %{after.label}"
    b.scopes[-1].block = body
    end = _conditional(b, body, stmt.body)
    loop = b.module.loop_metadata(['!"llvm.loop.unroll.disable"'])
    end.terminator = f"br label %{test.label}, !llvm.loop {loop}"
    b.close()
    b.scopes[-1].block = after


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
