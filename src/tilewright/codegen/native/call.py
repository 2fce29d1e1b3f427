"""The one function by which the ahead-of-time executor runs a model, as LLVM IR text.

    i32 main__call(ptr dims, ptr inputs, ptr outputs, ptr weights, ptr workspace, i32 threads)

It checks its arguments, plans the memory where sizes are symbolic, and hands all addresses to the run loop on `threads`
workers. The result is 0 or a code of `CInterface.errors`. `runtime/c_source.py` has the same in C for libraries.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.runtime.c_interface import INTERFACE_ERRORS, CInterface

_TEXT = """\
declare i32 @tilewright_parallel_run(ptr, ptr, i32)
declare i32 @{entry}__entry(ptr, ptr)
declare i32 @llvm.smin.i32(i32, i32)
{declarations}
; What the model's own code says of it goes before this.
define weak i32 @{entry}__run(ptr %slots, i32 %threads) {{
  %code = call i32 @tilewright_parallel_run(ptr @{entry}__entry, ptr %slots, i32 %threads)
  ret i32 %code
}}
define i32 @{entry}__call(ptr %dims, ptr %inputs, ptr %outputs, ptr %weights, ptr %workspace, i32 %threads) {{
entry:
  %slots = alloca [{count} x ptr], align 16
  %plan = alloca [{plan} x i64], align 16
  %none = icmp eq ptr %workspace, null
  br i1 %none, label %null, label %counted
null:
  ret i32 1
counted:
  %few = icmp slt i32 %threads, 1
  br i1 %few, label %wrong, label %start
wrong:
  ret i32 2
start:
  %workers = call i32 @llvm.smin.i32(i32 %threads, i32 {most})
  %address = ptrtoint ptr %workspace to i64
  %up = add i64 %address, 63
  %down = and i64 %up, -64
  %arena = inttoptr i64 %down to ptr
{body}
  %code = call i32 @{entry}__run(ptr %slots, i32 %workers)
  %ok = icmp eq i32 %code, 0
  %result = select i1 %ok, i32 0, i32 {kernel_error}
  ret i32 %result
}}
"""

_PLAN = """\
  %failed = call i32 @{entry}__plan(ptr %dims, ptr %plan, ptr null)
  %planned = icmp eq i32 %failed, 0
  br i1 %planned, label %arrange, label %refused
refused:
  %check = add i32 %failed, {first}
  ret i32 %check
arrange:
  %arena_bytes.p = getelementptr i64, ptr %plan, i64 {table}
  %arena_bytes = load i64, ptr %arena_bytes.p
  %scratch = getelementptr i8, ptr %arena, i64 %arena_bytes"""


def call_text(interface: CInterface) -> str:
    """The IR text for one model."""
    return _TEXT.format(
        entry=interface.entry,
        declarations=f"declare i32 @{interface.entry}__plan(ptr, ptr, ptr)\n" if interface.is_symbolic else "",
        count=interface.slots,
        plan=max(interface.plan, 1),
        most=interface.max_threads,
        body="\n".join(_body(interface)),
        kernel_error=interface.kernel_error,
    )


def _body(interface: CInterface) -> Iterator[str]:
    if interface.is_symbolic:
        yield _PLAN.format(entry=interface.entry, first=len(INTERFACE_ERRORS), table=interface.table)
    else:
        yield f"  %scratch = getelementptr i8, ptr %arena, i64 {interface.arena_bytes}"
    position = 0
    for array, specs in (("inputs", interface.inputs), ("outputs", interface.outputs)):
        for index in range(len(specs)):
            yield f"  %{array}{index}.p = getelementptr ptr, ptr %{array}, i64 {index}"
            yield f"  %{array}{index} = load ptr, ptr %{array}{index}.p"
            yield from _store(position, f"%{array}{index}")
            position += 1
    for value in ("%weights", "%arena", "%scratch", *(("%plan",) if interface.is_symbolic else ())):
        yield from _store(position, value)
        position += 1


def _store(position: int, value: str) -> Iterator[str]:
    yield f"  %slot{position} = getelementptr ptr, ptr %slots, i64 {position}"
    yield f"  store ptr {value}, ptr %slot{position}"
