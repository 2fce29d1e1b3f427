"""Workers for libraries with the classic packed interface, on this process's pool, as LLVM IR text.

    i32 packed_launch(ptr function, ptr data, i32 tasks)     function(worker, environment, data) on so many workers
    i32 packed_barrier(i32 worker, ptr environment)

The environment is what the interface says, a handle and the number of workers; the handle is the pool's own context.
With 0 tasks there are up to `packed_workers` workers, as many as come: a library is given their number and divides its
work by it. Nobody waits for one that has no core then.
"""

from __future__ import annotations

from tilewright.runtime.native import KINDS

TEXT = """\
%Context = type { i32, i32, ptr }
%Environment = type { ptr, i32 }
@packed_workers = global i32 1
@meeting = internal constant i8 $MEETING$

declare i32 @tilewright_parallel_run(ptr, ptr, i32)
declare i32 @tilewright_run(ptr, ptr, i32, ptr, i32, ptr)
declare void @tilewright_barrier(ptr)

define internal i32 @packed_work(ptr %call, ptr %ctx) {
  %env = alloca %Environment, align 16
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %worker = load i32, ptr %ctx
  %workers = load i32, ptr %workers.p
  %count.p = getelementptr %Environment, ptr %env, i32 0, i32 1
  store ptr %ctx, ptr %env
  store i32 %workers, ptr %count.p
  %fn = load ptr, ptr %call
  %data.p = getelementptr ptr, ptr %call, i32 1
  %data = load ptr, ptr %data.p
  %code = call i32 %fn(i32 %worker, ptr %env, ptr %data)
  ret i32 %code
}

define i32 @packed_launch(ptr %fn, ptr %data, i32 %tasks) {
  %call = alloca [2 x ptr], align 16
  %data.p = getelementptr ptr, ptr %call, i32 1
  store ptr %fn, ptr %call
  store ptr %data, ptr %data.p
  %own = load i32, ptr @packed_workers
  %any = icmp sle i32 %tasks, 0
  br i1 %any, label %free, label %counted
free:
  %state = alloca [8 x i64], align 16
  store [8 x i64] zeroinitializer, ptr %state
  %code.free = call i32 @tilewright_run(ptr @packed_work, ptr @meeting, i32 1, ptr %call, i32 %own, ptr %state)
  ret i32 %code.free
counted:
  %code = call i32 @tilewright_parallel_run(ptr @packed_work, ptr %call, i32 %tasks)
  ret i32 %code
}

define i32 @packed_barrier(i32 %worker, ptr %env) {
  %ctx = load ptr, ptr %env
  call void @tilewright_barrier(ptr %ctx)
  ret i32 0
}
""".replace("$MEETING$", str(KINDS["meeting"]))
