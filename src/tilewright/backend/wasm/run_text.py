"""The part of a model's module that is the same for all models, as LLVM IR text: `run`, on one worker.

    i32 run(slots)      0 or the code of a failed check; slots as the run loop takes them (`backend/cpu/run_loop.py`)

The context is that of the worker pool: worker, workers, barrier, region at 16 (`codegen/native/pool.py`).
"""

from __future__ import annotations

from string import Template

_TEXT = Template("""\
declare i32 @${entry}__entry(ptr, ptr)
define void @tilewright_barrier(ptr %ctx) {
  ret void
}
define i32 @tilewright_regions(ptr %fn, i32 %regions, ptr %args, ptr %ctx) {
entry:
  %region.p = getelementptr i8, ptr %ctx, i32 16
  %any = icmp sgt i32 %regions, 0
  br i1 %any, label %next, label %done
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %fine ]
  store i32 %i, ptr %region.p
  %code = call i32 %fn(ptr %args, ptr %ctx)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %fine
failed:
  ret i32 %code
fine:
  %i.next = add i32 %i, 1
  %more = icmp slt i32 %i.next, %regions
  br i1 %more, label %next, label %done
done:
  ret i32 0
}
define i32 @run(ptr %slots) {
  %ctx = alloca [24 x i8], align 16
  store i64 4294967296, ptr %ctx
  %barrier = getelementptr i8, ptr %ctx, i32 8
  store i64 0, ptr %barrier
  %code = call i32 @${entry}__entry(ptr %slots, ptr %ctx)
  ret i32 %code
}
""")


def run_text(entry: str) -> str:
    """The text for the run loop `entry`."""
    return _TEXT.substitute(entry=entry)
