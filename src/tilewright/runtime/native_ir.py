"""The native part of the runtime as LLVM IR text: the worker pool, the barrier, and two small call helpers.

Written by hand and compiled in the process (`native.py`), so that nothing has to be built or installed where a model
runs. It needs a few libc functions, all found in the process: pthread_*, syscall (for futex), sched_getcpu,
sched_get/setaffinity, gettid and clock_gettime. x86-64 and AArch64 Linux.

How it works
------------
*Launch.* `tilewright_parallel_run(fn, args, n)` runs `fn(args, ctx)` on n workers at once; the caller is worker 0.
Every other worker has its own cache line with a `ticket` word: a launch adds one to the tickets of the workers it
needs, and leaves the others asleep. The last worker to finish bumps `@finished`, which the caller waits for. Launches
from several Python threads take turns (`@lock`); a launch from inside a launch runs on its own thread alone.

*Barrier.* An arrival counter and an epoch. The last to arrive resets the counter and bumps the epoch; the others
wait for the epoch to change. With one worker it returns at once. When a worker's function fails, the barrier is broken:
it no longer holds anybody, so that the others run to their end rather than wait for a worker that is gone.

*Waiting* is the same everywhere (`@wait_for_change`): spin with pause for up to 100 us, then sleep in a futex, so that
an idle process uses no processor time. With more workers than processors there is no spinning beyond the first
microsecond, as the worker waited for may need this very processor. There is no sched_yield: beside busy processes, one
yield was seen to cost a worker 3 ms and more.

*Places.* On a busy machine the kernel may wake a worker on its caller's processor, and then leaves the two there, each
waiting for the other to stop spinning: 100 us a barrier. So a worker notes its processor wherever it waits, and when
that finds two together for the fourth time within 1 ms, one is moved to a processor without a worker (`@part`). Rarer
waits are left alone: where kernels run for long, the kernel's own balancing does better.

*Sleep and wake.* A sleeper adds itself to a `sleepers` count and then looks at the word again (in the kernel, inside
futex); a waker changes the word and then looks at `sleepers`; both sequentially consistent: one sees the other.

*Fork.* The child has only the forking thread: `tilewright_pool_forget` makes the pool empty again, without joining.
"""

from __future__ import annotations

MAX_WORKERS = 256

# name -> (futex system call number, intrinsic that tells the core it is in a spin loop, its parameter and argument)
_MACHINES = {
    "x86_64": (202, "llvm.x86.sse2.pause", "", ""),
    "aarch64": (98, "llvm.aarch64.isb", "i32", "i32 15"),
}

_SPIN_NANOSECONDS = 100_000
_WINDOW_NANOSECONDS = 1_000_000
_OFTEN = 4
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129
_SIG_SETMASK = 2
_CLOCK_MONOTONIC = 1

EXPORTS = (
    "tilewright_barrier",
    "tilewright_parallel_run",
    "tilewright_call_with_worker_memory",
    "tilewright_set_processors",
    "tilewright_pool_threads",
    "tilewright_pool_stop",
    "tilewright_pool_forget",
)


def supported_machines() -> tuple[str, ...]:
    """The architectures (as `platform.machine()` spells them) this text can be made for."""
    return tuple(_MACHINES)


def pool_text(machine: str) -> str:
    """The IR of the whole native runtime for `machine` ("x86_64" or "aarch64")."""
    futex, pause, pause_type, pause_argument = _MACHINES[machine]
    values = {
        "FUTEX": futex,
        "PAUSE": f"@{pause}({pause_argument})",
        "PAUSE_DECLARATION": f"@{pause}({pause_type})",
        "MAX_WORKERS": MAX_WORKERS,
        "SPIN_NS": _SPIN_NANOSECONDS,
        "WINDOW_NS": _WINDOW_NANOSECONDS,
        "OFTEN": _OFTEN - 1,
        "FUTEX_WAIT": _FUTEX_WAIT_PRIVATE,
        "FUTEX_WAKE": _FUTEX_WAKE_PRIVATE,
        "SIG_SETMASK": _SIG_SETMASK,
        "CLOCK": _CLOCK_MONOTONIC,
    }
    text = "\n".join((_DECLARATIONS, _WAITING, _BARRIER, _WORKER, _LAUNCH, _CONTROL, CALL_WITH_WORKER_MEMORY))
    for name, value in values.items():
        text = text.replace(f"${name}$", str(value))
    return text


_DECLARATIONS = """\
%Context = type { i32, i32, ptr }                               ; worker, workers, barrier: what compiled code sees
%Barrier = type { i32, [60 x i8], i32, i32, i32, [52 x i8] }    ; arrived | its own line: epoch, sleepers, broken
%Worker  = type { i32, i32, i32, i32, i64, [40 x i8] }          ; ticket, sleepers, index, thread id, pthread_t

@barrier    = internal global %Barrier zeroinitializer, align 64
@workers    = internal global [$MAX_WORKERS$ x %Worker] zeroinitializer, align 64

; One launch: written by the caller while it holds @lock and before it hands out tickets.
@fn         = internal global ptr null, align 64
@args       = internal global ptr null
@count      = internal global i32 0                             ; workers taking part, the caller included
@spin_ns    = internal global i64 $SPIN_NS$                     ; how long waits of this launch spin
@cpus       = internal global [$MAX_WORKERS$ x i32] zeroinitializer, align 64 ; 1 + where each worker last waited, or 0
@window     = internal global i64 0                             ; when counting of waits beside another worker began
@together   = internal global i32 0                             ; and how many there were since
@status     = internal global i32 0                             ; the first failing worker's code
@unfinished = internal global i32 0, align 64                   ; workers still inside @fn, the caller not counted
@finished   = internal global [2 x i32] zeroinitializer, align 64 ; epoch, sleepers: the caller waits here

@lock       = internal global [8 x i64] zeroinitializer, align 64 ; a pthread_mutex_t (all zero is unlocked on Linux)
@owner      = internal global i64 0                             ; pthread_self() of the launching thread, else 0
@created    = internal global i32 0                             ; threads that exist (the caller is none of them)
@stopping   = internal global i32 0
@processors = internal global i32 1                             ; how many this process may use; set from Python

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i64 @pthread_self()
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare i32 @gettid()
declare i32 @clock_gettime(i32, ptr)
declare i64 @syscall(i64, ...)
declare void $PAUSE_DECLARATION$
declare i32 @llvm.smin.i32(i32, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""

_WAITING = """\
define internal i64 @now() {
  %time = alloca [2 x i64]
  call i32 @clock_gettime(i32 $CLOCK$, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.p = getelementptr i64, ptr %time, i64 1
  %fraction = load i64, ptr %fraction.p
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %fraction
  ret i64 %ns
}

; Up to 32 looks at the word with a pause between them (1 us or so); whether it was ever seen not to be %old.
define internal i1 @look(ptr %word, i32 %old) {
entry:
  br label %next
next:
  %tries = phi i32 [ 0, %entry ], [ %tries.next, %pause ]
  %seen = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %seen, %old
  br i1 %same, label %pause, label %changed
pause:
  call void $PAUSE$
  %tries.next = add i32 %tries, 1
  %more = icmp slt i32 %tries.next, 32
  br i1 %more, label %next, label %unchanged
changed:
  ret i1 1
unchanged:
  ret i1 0
}

; Note which processor worker %self is on; the mark left (0 is for a worker that has not been seen yet).
define internal i32 @note_processor(i32 %self) {
entry:
  %cpu = call i32 @sched_getcpu()
  %mark = add i32 %cpu, 1
  %own = getelementptr [$MAX_WORKERS$ x i32], ptr @cpus, i32 0, i32 %self
  %known = load atomic i32, ptr %own monotonic, align 4
  %stayed = icmp eq i32 %known, %mark
  br i1 %stayed, label %done, label %store          ; the line is read by all: write only news
store:
  store atomic i32 %mark, ptr %own monotonic, align 4
  br label %done
done:
  ret i32 %mark
}

; Another worker of this launch that was last seen on the processor of worker %self, else -1.
define internal i32 @neighbour(i32 %self) {
entry:
  %mark = call i32 @note_processor(i32 %self)
  %count = load i32, ptr @count
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %compare ]
  %found = phi i32 [ -1, %entry ], [ %found.next, %compare ]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %compare, label %done
compare:
  %p = getelementptr [$MAX_WORKERS$ x i32], ptr @cpus, i32 0, i32 %i
  %where = load atomic i32, ptr %p monotonic, align 4
  %same = icmp eq i32 %where, %mark
  %another = icmp ne i32 %i, %self
  %together = and i1 %same, %another
  %found.next = select i1 %together, i32 %i, i32 %found
  %i.next = add i32 %i, 1
  br label %next
done:
  ret i32 %found
}

; Two workers share a processor though there are enough: move one of the two, never the caller's thread, to a processor
; where no worker is. Its affinity mask is narrowed, which makes the kernel move it at once, and then restored.
define internal void @part(i32 %self, i32 %other) {
entry:
  %mask = alloca [16 x i64], align 16             ; 1,024 processors, as in glibc's cpu_set_t
  %narrow = alloca [16 x i64], align 16
  %caller = icmp eq i32 %self, 0
  %which = select i1 %caller, i32 %other, i32 %self
  %index = sub i32 %which, 1
  %tid.p = getelementptr [$MAX_WORKERS$ x %Worker], ptr @workers, i32 0, i32 %index, i32 3
  %tid = load atomic i32, ptr %tid.p monotonic, align 4
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  call i32 @sched_getaffinity(i32 %tid, i64 128, ptr %mask)
  call void @llvm.memcpy.p0.p0.i64(ptr %narrow, ptr %mask, i64 128, i1 false)
  %count = load i32, ptr @count
  br label %next
next:                                             ; strike out where workers are, itself included
  %i = phi i32 [ 0, %entry ], [ %i.next, %struck ]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %strike, label %move
strike:
  %p = getelementptr [$MAX_WORKERS$ x i32], ptr @cpus, i32 0, i32 %i
  %mark = load atomic i32, ptr %p monotonic, align 4
  %cpu = sub i32 %mark, 1
  %inside = icmp ult i32 %cpu, 1024
  br i1 %inside, label %clear, label %struck
clear:
  %word = lshr i32 %cpu, 6
  %word.p = getelementptr i64, ptr %narrow, i32 %word
  %bit = and i32 %cpu, 63
  %bit.64 = zext i32 %bit to i64
  %one = shl i64 1, %bit.64
  %others = xor i64 %one, -1
  %old = load i64, ptr %word.p
  %new = and i64 %old, %others
  store i64 %new, ptr %word.p
  br label %struck
struck:
  %i.next = add i32 %i, 1
  br label %next
move:                                             ; an empty mask is refused, and so nothing happens
  call i32 @sched_setaffinity(i32 %tid, i64 128, ptr %narrow)
  call i32 @sched_setaffinity(i32 %tid, i64 128, ptr %mask)
  ret void
}

; Worker %self returns once the word at %word is not %old; %sleepers counts those asleep on it.
define internal void @wait_for_change(ptr %word, i32 %old, ptr %sleepers, i32 %self) {
entry:
  %soon = call i1 @look(ptr %word, i32 %old)
  br i1 %soon, label %done, label %consider
consider:
  %start = call i64 @now()
  %spin_ns = load i64, ptr @spin_ns
  %crowded = icmp eq i64 %spin_ns, 0
  br i1 %crowded, label %announce, label %place
place:
  %other = call i32 @neighbour(i32 %self)
  %shared = icmp sge i32 %other, 0
  br i1 %shared, label %count, label %spin
count:
  %window = load atomic i64, ptr @window monotonic, align 8
  %age = sub i64 %start, %window
  %recent = icmp slt i64 %age, $WINDOW_NS$
  br i1 %recent, label %again, label %renew
renew:
  store atomic i64 %start, ptr @window monotonic, align 8
  store atomic i32 1, ptr @together monotonic, align 4
  br label %spin
again:
  %before = atomicrmw add ptr @together, i32 1 monotonic
  %often = icmp eq i32 %before, $OFTEN$
  br i1 %often, label %part, label %spin
part:
  call void @part(i32 %self, i32 %other)
  br label %spin
spin:
  %seen = call i1 @look(ptr %word, i32 %old)
  br i1 %seen, label %done, label %clock
clock:
  %now = call i64 @now()
  %spent = sub i64 %now, %start
  %patient = icmp slt i64 %spent, %spin_ns
  br i1 %patient, label %spin, label %announce

announce:                                         ; sleep until woken; the kernel looks at the word once more
  atomicrmw add ptr %sleepers, i32 1 seq_cst
  br label %sleep
sleep:
  %sleep.seen = load atomic i32, ptr %word seq_cst, align 4
  %sleep.same = icmp eq i32 %sleep.seen, %old
  br i1 %sleep.same, label %sleep.call, label %awake
sleep.call:
  call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %word, i32 $FUTEX_WAIT$, i32 %old, ptr null)
  br label %sleep
awake:
  atomicrmw sub ptr %sleepers, i32 1 seq_cst
  call i32 @note_processor(i32 %self)
  br label %done
done:
  ret void
}

; Add one to the word and wake whoever sleeps on it.
define internal void @change(ptr %word, ptr %sleepers) {
entry:
  atomicrmw add ptr %word, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %none = icmp eq i32 %asleep, 0
  br i1 %none, label %done, label %wake
wake:
  call i64 (i64, ...) @syscall(i64 $FUTEX$, ptr %word, i32 $FUTEX_WAKE$, i32 2147483647)
  br label %done
done:
  ret void
}
"""

_BARRIER = """\
define void @tilewright_barrier(ptr %ctx) {
entry:
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %workers = load i32, ptr %workers.p
  %single = icmp sle i32 %workers, 1
  br i1 %single, label %done, label %meet
meet:
  %barrier.p = getelementptr %Context, ptr %ctx, i32 0, i32 2
  %barrier = load ptr, ptr %barrier.p
  %epoch.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 2
  %sleepers.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 3
  %broken.p = getelementptr %Barrier, ptr %barrier, i32 0, i32 4
  %epoch = load atomic i32, ptr %epoch.p acquire, align 4   ; before arriving: it cannot change until this one arrives
  %broken = load atomic i32, ptr %broken.p acquire, align 4 ; after the epoch: whoever breaks sets it, then bumps
  %holds = icmp eq i32 %broken, 0
  br i1 %holds, label %arrive, label %done
arrive:
  %before = atomicrmw add ptr %barrier, i32 1 acq_rel
  %arrived = add i32 %before, 1
  %last = icmp eq i32 %arrived, %workers
  br i1 %last, label %open, label %wait
open:
  store atomic i32 0, ptr %barrier monotonic, align 4
  call void @change(ptr %epoch.p, ptr %sleepers.p)
  ret void
wait:
  %self = load i32, ptr %ctx
  call void @wait_for_change(ptr %epoch.p, i32 %epoch, ptr %sleepers.p, i32 %self)
  ret void
done:
  ret void
}

; Record a worker's result; a failure breaks the barrier, because this worker will not meet the others any more.
define internal void @note(i32 %code) {
entry:
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %done, label %failed
failed:
  cmpxchg ptr @status, i32 0, i32 %code seq_cst seq_cst
  %epoch.p = getelementptr %Barrier, ptr @barrier, i32 0, i32 2
  %sleepers.p = getelementptr %Barrier, ptr @barrier, i32 0, i32 3
  %broken.p = getelementptr %Barrier, ptr @barrier, i32 0, i32 4
  store atomic i32 1, ptr %broken.p seq_cst, align 4
  call void @change(ptr %epoch.p, ptr %sleepers.p)
  br label %done
done:
  ret void
}
"""

_WORKER = """\
; This worker's share: fn(args, ctx).
define internal i32 @share(ptr %fn, ptr %args, i32 %worker, i32 %workers) {
  %ctx = alloca %Context, align 16
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %barrier.p = getelementptr %Context, ptr %ctx, i32 0, i32 2
  store i32 %worker, ptr %ctx
  store i32 %workers, ptr %workers.p
  store ptr @barrier, ptr %barrier.p
  %code = call i32 %fn(ptr %args, ptr %ctx)
  ret i32 %code
}

; The life of a thread: wait for a ticket, do a share, sign off.
define internal ptr @worker_main(ptr %self) {
entry:
  %sleepers.p = getelementptr %Worker, ptr %self, i32 0, i32 1
  %index.p = getelementptr %Worker, ptr %self, i32 0, i32 2
  %index = load i32, ptr %index.p
  %tid.p = getelementptr %Worker, ptr %self, i32 0, i32 3
  %tid = call i32 @gettid()
  store atomic i32 %tid, ptr %tid.p monotonic, align 4
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %ticket, %work ], [ %ticket, %last ]
  call void @wait_for_change(ptr %self, i32 %seen, ptr %sleepers.p, i32 %index)
  call i32 @note_processor(i32 %index)
  %ticket = load atomic i32, ptr %self acquire, align 4
  %stopping = load i32, ptr @stopping
  %stop = icmp ne i32 %stopping, 0
  br i1 %stop, label %leave, label %work
work:
  %fn = load ptr, ptr @fn
  %args = load ptr, ptr @args
  %count = load i32, ptr @count
  %code = call i32 @share(ptr %fn, ptr %args, i32 %index, i32 %count)
  call void @note(i32 %code)
  %before = atomicrmw sub ptr @unfinished, i32 1 acq_rel
  %is.last = icmp eq i32 %before, 1
  br i1 %is.last, label %last, label %idle
last:
  call void @change(ptr @finished, ptr getelementptr (i32, ptr @finished, i64 1))
  br label %idle
leave:
  ret ptr null
}

; Make sure that %wanted - 1 threads exist; return how many workers there can be (fewer when the system refuses).
; Signals are blocked in the new threads, so that the interpreter's threads keep receiving them.
define internal i32 @grow(i32 %wanted) {
entry:
  %all = alloca [16 x i64]
  %old = alloca [16 x i64]
  %most = call i32 @llvm.smin.i32(i32 %wanted, i32 $MAX_WORKERS$)
  %needed = sub i32 %most, 1
  %have = load i32, ptr @created
  %enough = icmp sge i32 %have, %needed
  br i1 %enough, label %done, label %block
block:
  call void @llvm.memset.p0.i64(ptr %all, i8 -1, i64 128, i1 false)
  call i32 @pthread_sigmask(i32 $SIG_SETMASK$, ptr %all, ptr %old)
  br label %next
next:
  %index = phi i32 [ %have, %block ], [ %index.next, %made ]
  %index.next = add i32 %index, 1
  %worker = getelementptr [$MAX_WORKERS$ x %Worker], ptr @workers, i32 0, i32 %index
  %index.p = getelementptr %Worker, ptr %worker, i32 0, i32 2
  %thread.p = getelementptr %Worker, ptr %worker, i32 0, i32 4
  call void @llvm.memset.p0.i64(ptr %worker, i8 0, i64 64, i1 false)
  store i32 %index.next, ptr %index.p
  %error = call i32 @pthread_create(ptr %thread.p, ptr null, ptr @worker_main, ptr %worker)
  %refused = icmp ne i32 %error, 0
  br i1 %refused, label %unblock, label %made
made:
  store i32 %index.next, ptr @created
  %more = icmp slt i32 %index.next, %needed
  br i1 %more, label %next, label %unblock
unblock:
  call i32 @pthread_sigmask(i32 $SIG_SETMASK$, ptr %old, ptr null)
  br label %done
done:
  %now = load i32, ptr @created
  %usable = call i32 @llvm.smin.i32(i32 %now, i32 %needed)
  %workers = add i32 %usable, 1
  ret i32 %workers
}
"""

_LAUNCH = """\
; Run fn(args, ctx) on %wanted workers, the caller being worker 0; return 0 or a failing worker's code.
define i32 @tilewright_parallel_run(ptr %fn, ptr %args, i32 %wanted) {
entry:
  %single = icmp sle i32 %wanted, 1
  br i1 %single, label %alone, label %check
check:                                            ; a launch inside a launch would wait for itself: run it alone
  %self = call i64 @pthread_self()
  %owner = load atomic i64, ptr @owner monotonic, align 8
  %nested = icmp eq i64 %self, %owner
  br i1 %nested, label %alone, label %enter
enter:
  call i32 @pthread_mutex_lock(ptr @lock)
  store atomic i64 %self, ptr @owner monotonic, align 8
  %workers = call i32 @grow(i32 %wanted)
  %helpers = sub i32 %workers, 1
  %processors = load i32, ptr @processors
  %crowded = icmp sgt i32 %workers, %processors
  %spin = select i1 %crowded, i64 0, i64 $SPIN_NS$
  store i64 %spin, ptr @spin_ns
  store ptr %fn, ptr @fn
  store ptr %args, ptr @args
  store i32 %workers, ptr @count
  store i32 0, ptr @status
  store i32 0, ptr @barrier                       ; a run that broke the barrier may have left arrivals behind
  store i32 0, ptr getelementptr (%Barrier, ptr @barrier, i32 0, i32 4)
  store i32 %helpers, ptr @unfinished
  call i32 @note_processor(i32 0)
  %epoch = load atomic i32, ptr @finished monotonic, align 4
  %any = icmp sgt i32 %helpers, 0
  br i1 %any, label %call, label %own
call:                                             ; hand out the tickets: each releases the stores above
  %i = phi i32 [ 0, %enter ], [ %i.next, %call ]
  %worker = getelementptr [$MAX_WORKERS$ x %Worker], ptr @workers, i32 0, i32 %i
  %sleepers.p = getelementptr %Worker, ptr %worker, i32 0, i32 1
  call void @change(ptr %worker, ptr %sleepers.p)
  %i.next = add i32 %i, 1
  %more = icmp slt i32 %i.next, %helpers
  br i1 %more, label %call, label %own
own:
  %code = call i32 @share(ptr %fn, ptr %args, i32 0, i32 %workers)
  call void @note(i32 %code)
  br i1 %any, label %join, label %leave
join:
  call void @wait_for_change(ptr @finished, i32 %epoch, ptr getelementptr (i32, ptr @finished, i64 1), i32 0)
  br label %leave
leave:
  %status = load atomic i32, ptr @status acquire, align 4
  store atomic i64 0, ptr @owner monotonic, align 8
  call i32 @pthread_mutex_unlock(ptr @lock)
  ret i32 %status
alone:
  %code.alone = call i32 @share(ptr %fn, ptr %args, i32 0, i32 1)
  ret i32 %code.alone
}
"""

_CONTROL = """\
define void @tilewright_set_processors(i32 %count) {
  store i32 %count, ptr @processors
  ret void
}

define i32 @tilewright_pool_threads() {
  %created = load i32, ptr @created
  ret i32 %created
}

; End all threads and wait for them; a later launch makes fresh ones.
define void @tilewright_pool_stop() {
entry:
  call i32 @pthread_mutex_lock(ptr @lock)
  store i32 1, ptr @stopping
  %created = load i32, ptr @created
  %any = icmp sgt i32 %created, 0
  br i1 %any, label %next, label %done
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %next ]
  %worker = getelementptr [$MAX_WORKERS$ x %Worker], ptr @workers, i32 0, i32 %i
  %sleepers.p = getelementptr %Worker, ptr %worker, i32 0, i32 1
  %thread.p = getelementptr %Worker, ptr %worker, i32 0, i32 4
  call void @change(ptr %worker, ptr %sleepers.p)
  %thread = load i64, ptr %thread.p
  call i32 @pthread_join(i64 %thread, ptr null)
  %i.next = add i32 %i, 1
  %more = icmp slt i32 %i.next, %created
  br i1 %more, label %next, label %done
done:
  store i32 0, ptr @created
  store i32 0, ptr @stopping
  call i32 @pthread_mutex_unlock(ptr @lock)
  ret void
}

; In the child of a fork: the threads do not exist here, and the lock may have been held by one of them.
define void @tilewright_pool_forget() {
  call void @llvm.memset.p0.i64(ptr @lock, i8 0, i64 64, i1 false)
  store i64 0, ptr @owner
  store i32 0, ptr @created
  store i32 0, ptr @stopping
  call void @llvm.memset.p0.i64(ptr @finished, i8 0, i64 8, i1 false)
  call void @llvm.memset.p0.i64(ptr @barrier, i8 0, i64 128, i1 false)
  ret void
}
"""

# Used for a single kernel: a whole model's run loop offsets the worker memory itself.
CALL_WITH_WORKER_MEMORY = """\
; %call: { entry, slots, number of slots, index of the slot that is different for each worker, bytes per worker }.
; Calls entry(slots, ctx) with that slot moved on by worker * bytes.
%Call = type { ptr, ptr, i64, i64, i64 }
define i32 @tilewright_call_with_worker_memory(ptr %call, ptr %ctx) {
  %slots.p = getelementptr %Call, ptr %call, i32 0, i32 1
  %count.p = getelementptr %Call, ptr %call, i32 0, i32 2
  %which.p = getelementptr %Call, ptr %call, i32 0, i32 3
  %stride.p = getelementptr %Call, ptr %call, i32 0, i32 4
  %entry = load ptr, ptr %call
  %slots = load ptr, ptr %slots.p
  %count = load i64, ptr %count.p
  %which = load i64, ptr %which.p
  %stride = load i64, ptr %stride.p
  %own = alloca i64, i64 %count, align 16
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %slots, i64 %bytes, i1 false)
  %worker = load i32, ptr %ctx
  %worker.64 = zext i32 %worker to i64
  %offset = mul i64 %worker.64, %stride
  %slot = getelementptr i64, ptr %own, i64 %which
  %base = load i64, ptr %slot
  %address = add i64 %base, %offset
  store i64 %address, ptr %slot
  %code = call i32 %entry(ptr %own, ptr %ctx)
  ret i32 %code
}
"""
