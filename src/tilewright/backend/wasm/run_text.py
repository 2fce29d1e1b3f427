"""The part of a module that is the same for all models, as LLVM IR text: `run`, and the workers that help it.

    i32 run(slots, ctx)       0 or the code of a failed check, with slots as in `backend/cpu/run_loop.py`
    void serve(slots, ctx)    the life of a helper, whose part of each run it does

The context is that of the worker pool (`codegen/native/pool.py`): worker, workers, team at 8, region at 16; at 12 is 0,
or one more than the only region to run, for profiles. Regions and barriers are those of processors as well, so that
all numbers of workers divide a kernel alike and find the same bits.

A team has words on cache lines of their own, each with the number of its sleepers behind it: 0 workers arrived at the
barrier; 64 its epoch; 128 runs begun; 192 helpers done; then 256 the code of a failure, which opens the barrier for
good; 260 looks at a word before a sleep. Engines have no clock and no pause for waiting workers. Nothing sleeps where
there is one worker, as a memory that is not shared does not allow it.
"""

from __future__ import annotations

from string import Template

_ONE = """\
define void @tilewright_barrier(ptr %ctx) {
  ret void
}
define internal void @begin(ptr %ctx) {
  ret void
}
define internal void @fail(ptr %ctx, i32 %code) {
  ret void
}
define internal i32 @failed(ptr %ctx) {
  ret i32 0
}
define internal void @finish(ptr %ctx) {
  ret void
}
"""

_SEVERAL = """\
declare i32 @llvm.wasm.memory.atomic.wait32(ptr, i32, i64)
declare i32 @llvm.wasm.memory.atomic.notify(ptr, i32)

define internal ptr @word(ptr %ctx, i32 %offset) #0 {
  %team.p = getelementptr i8, ptr %ctx, i32 8
  %team = load ptr, ptr %team.p
  %word = getelementptr i8, ptr %team, i32 %offset
  ret ptr %word
}
define internal i32 @helpers(ptr %ctx) #0 {
  %workers.p = getelementptr i8, ptr %ctx, i32 4
  %workers = load i32, ptr %workers.p
  %helpers = sub i32 %workers, 1
  ret i32 %helpers
}
define internal void @change(ptr %word) #0 {
entry:
  atomicrmw add ptr %word, i32 1 seq_cst
  %sleepers.p = getelementptr i8, ptr %word, i32 4
  %sleepers = load atomic i32, ptr %sleepers.p seq_cst, align 4
  %any = icmp ne i32 %sleepers, 0
  br i1 %any, label %wake, label %done
wake:
  call i32 @llvm.wasm.memory.atomic.notify(ptr %word, i32 -1)
  br label %done
done:
  ret void
}
define internal void @wait_for_change(ptr %ctx, ptr %word, i32 %old) #0 {
entry:
  %spins.p = call ptr @word(ptr %ctx, i32 260)
  %spins = load i32, ptr %spins.p
  br label %look
look:
  %i = phi i32 [ 0, %entry ], [ 0, %sleep ], [ %i.next, %again ]
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %old
  br i1 %same, label %again, label %done
again:
  %i.next = add i32 %i, 1
  %more = icmp ult i32 %i.next, %spins
  br i1 %more, label %look, label %sleep
sleep:
  %sleepers.p = getelementptr i8, ptr %word, i32 4
  atomicrmw add ptr %sleepers.p, i32 1 seq_cst
  call i32 @llvm.wasm.memory.atomic.wait32(ptr %word, i32 %old, i64 -1)
  atomicrmw sub ptr %sleepers.p, i32 1 seq_cst
  br label %look
done:
  ret void
}
define void @tilewright_barrier(ptr %ctx) #0 {
entry:
  %helpers = call i32 @helpers(ptr %ctx)
  %alone = icmp eq i32 %helpers, 0
  br i1 %alone, label %done, label %meet
meet:
  %arrived.p = call ptr @word(ptr %ctx, i32 0)
  %epoch.p = call ptr @word(ptr %ctx, i32 64)
  %epoch = load atomic i32, ptr %epoch.p seq_cst, align 4   ; before arriving: it cannot change until this one arrives
  %broken = call i32 @failed(ptr %ctx)
  %holds = icmp eq i32 %broken, 0
  br i1 %holds, label %arrive, label %done
arrive:
  %before = atomicrmw add ptr %arrived.p, i32 1 seq_cst
  %last = icmp eq i32 %before, %helpers
  br i1 %last, label %open, label %wait
open:
  store atomic i32 0, ptr %arrived.p seq_cst, align 4
  call void @change(ptr %epoch.p)
  ret void
wait:
  call void @wait_for_change(ptr %ctx, ptr %epoch.p, i32 %epoch)
  ret void
done:
  ret void
}
define internal void @begin(ptr %ctx) #0 {
entry:
  %helpers = call i32 @helpers(ptr %ctx)
  %alone = icmp eq i32 %helpers, 0
  br i1 %alone, label %done, label %call
call:
  %arrived.p = call ptr @word(ptr %ctx, i32 0)
  %runs.p = call ptr @word(ptr %ctx, i32 128)
  %finished.p = call ptr @word(ptr %ctx, i32 192)
  %code.p = call ptr @word(ptr %ctx, i32 256)
  store atomic i32 0, ptr %arrived.p seq_cst, align 4       ; a run that failed may have left arrivals behind
  store atomic i32 0, ptr %finished.p seq_cst, align 4
  store atomic i32 0, ptr %code.p seq_cst, align 4
  call void @change(ptr %runs.p)
  br label %done
done:
  ret void
}
define internal void @fail(ptr %ctx, i32 %code) #0 {
entry:
  %helpers = call i32 @helpers(ptr %ctx)
  %alone = icmp eq i32 %helpers, 0
  br i1 %alone, label %done, label %break
break:
  %code.p = call ptr @word(ptr %ctx, i32 256)
  %epoch.p = call ptr @word(ptr %ctx, i32 64)
  cmpxchg ptr %code.p, i32 0, i32 %code seq_cst seq_cst
  call void @change(ptr %epoch.p)
  br label %done
done:
  ret void
}
define internal i32 @failed(ptr %ctx) #0 {
entry:
  %helpers = call i32 @helpers(ptr %ctx)
  %alone = icmp eq i32 %helpers, 0
  br i1 %alone, label %done, label %look
look:
  %code.p = call ptr @word(ptr %ctx, i32 256)
  %code = load atomic i32, ptr %code.p seq_cst, align 4
  ret i32 %code
done:
  ret i32 0
}
define internal void @finish(ptr %ctx) #0 {
entry:
  %helpers = call i32 @helpers(ptr %ctx)
  %alone = icmp eq i32 %helpers, 0
  br i1 %alone, label %done, label %look
look:
  %finished.p = call ptr @word(ptr %ctx, i32 192)
  %finished = load atomic i32, ptr %finished.p seq_cst, align 4
  %all = icmp eq i32 %finished, %helpers
  br i1 %all, label %done, label %wait
wait:
  call void @wait_for_change(ptr %ctx, ptr %finished.p, i32 %finished)
  br label %look
done:
  ret void
}
define void @serve(ptr %slots, ptr %ctx) #0 {
entry:
  %runs.p = call ptr @word(ptr %ctx, i32 128)
  %finished.p = call ptr @word(ptr %ctx, i32 192)
  br label %next
next:
  %seen = phi i32 [ 0, %entry ], [ %seen.next, %work ]
  call void @wait_for_change(ptr %ctx, ptr %runs.p, i32 %seen)
  %seen.next = add i32 %seen, 1
  br label %work
work:
  call i32 @$entry__entry(ptr %slots, ptr %ctx)
  call void @change(ptr %finished.p)
  br label %next
}
attributes #0 = { "target-features"="+atomics,+bulk-memory" }
"""

_TEXT = Template("""\
declare i32 @${entry}__entry(ptr, ptr)
define i32 @tilewright_regions(ptr %fn, i32 %regions, ptr %slots, ptr %ctx) {
entry:
  %region.p = getelementptr i8, ptr %ctx, i32 16
  %only.p = getelementptr i8, ptr %ctx, i32 12
  %only = load i32, ptr %only.p
  %all = icmp eq i32 %only, 0
  br i1 %all, label %next, label %one
one:
  %region = sub i32 %only, 1
  store i32 %region, ptr %region.p
  %code.one = call i32 %fn(ptr %slots, ptr %ctx)
  ret i32 %code.one
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %fine ]
  %more = icmp slt i32 %i, %regions
  br i1 %more, label %work, label %done
work:
  store i32 %i, ptr %region.p
  %code = call i32 %fn(ptr %slots, ptr %ctx)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %meet
failed:
  call void @fail(ptr %ctx, i32 %code)
  ret i32 %code
meet:
  call void @tilewright_barrier(ptr %ctx)
  %other = call i32 @failed(ptr %ctx)
  %fails = icmp ne i32 %other, 0
  br i1 %fails, label %stop, label %fine
stop:
  ret i32 %other
fine:
  %i.next = add i32 %i, 1
  br label %next
done:
  ret i32 0
}
define i32 @run(ptr %slots, ptr %ctx) {
  call void @begin(ptr %ctx)
  %code = call i32 @${entry}__entry(ptr %slots, ptr %ctx)
  call void @finish(ptr %ctx)
  ret i32 %code
}
""")


def run_text(entry: str, has_threads: bool) -> str:
    """The text for the run loop `entry`. Without threads there is no `serve`, and no atomic instruction."""
    return (_SEVERAL.replace("$entry", entry) if has_threads else _ONE) + _TEXT.substitute(entry=entry)
