"""A kernel's share of one worker with the times at which it began and ended, for time lines with a track a thread."""

from __future__ import annotations

from tilewright.codegen.native.pool_code import compile_text

#: %record: { entry, slots, times }: calls entry(slots, ctx) between two readings of the clock, which is Python's
#: `perf_counter`, and puts them, in ns, at times[2 * worker] and the position behind.
_TEXT = """\
declare i32 @clock_gettime(i32, ptr)
define internal i64 @now() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.p = getelementptr i64, ptr %time, i64 1
  %fraction = load i64, ptr %fraction.p
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %fraction
  ret i64 %ns
}
define i32 @tilewright_timed_call(ptr %record, ptr %ctx) {
  %slots.p = getelementptr ptr, ptr %record, i64 1
  %times.p = getelementptr ptr, ptr %record, i64 2
  %entry = load ptr, ptr %record
  %slots = load ptr, ptr %slots.p
  %times = load ptr, ptr %times.p
  %worker = load i32, ptr %ctx
  %worker.64 = zext i32 %worker to i64
  %row = mul i64 %worker.64, 2
  %begin.p = getelementptr i64, ptr %times, i64 %row
  %end.p = getelementptr i64, ptr %begin.p, i64 1
  %begin = call i64 @now()
  %code = call i32 %entry(ptr %slots, ptr %ctx)
  %end = call i64 @now()
  store i64 %begin, ptr %begin.p
  store i64 %end, ptr %end.p
  ret i32 %code
}
"""


def timed_call_code() -> bytes:
    """The object code for this machine."""
    return compile_text(_TEXT)
