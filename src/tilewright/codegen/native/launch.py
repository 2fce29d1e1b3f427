"""Workers for libraries with the classic packed interface, on this process's pool, as LLVM IR text.

    i32 packed_launch(ptr function, ptr data, i32 tasks)     function(worker, environment, data) on so many workers
    i32 packed_barrier(i32 worker, ptr environment)

The environment is what the interface says, a handle and the number of workers; the handle is the pool's own context.
With 0 tasks there are as many workers as `packed_workers` holds.
"""

from __future__ import annotations

TEXT = """\
%Context = type { i32, i32, ptr }
%Environment = type { ptr, i32 }
@packed_workers = global i32 1

declare i32 @tilewright_parallel_run(ptr, ptr, i32)
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
  %count = select i1 %any, i32 %own, i32 %tasks
  %code = call i32 @tilewright_parallel_run(ptr @packed_work, ptr %call, i32 %count)
  ret i32 %code
}

define i32 @packed_barrier(i32 %worker, ptr %env) {
  %ctx = load ptr, ptr %env
  call void @tilewright_barrier(ptr %ctx)
  ret i32 0
}
"""
