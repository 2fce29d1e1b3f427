"""The native part of the runtime as LLVM IR text: the worker pool, the barrier, and two small call helpers.

Written by hand and compiled in the process (`pool_code.py`), so that nothing has to be built or installed where a model
is compiled; its object code goes with every artifact (`runtime/native.py`). It needs a few libc functions, all found in
the process: pthread_*, syscall (futex, gettid), sched_getcpu, sched_get/setaffinity and clock_gettime. Linux on
x86-64, AArch64 and 64-bit RISC-V.

How it works
------------
*Regions.* A model is a function of regions, one a kernel: `tilewright_run(fn, kinds, regions, args, n, state)` calls
`fn(args, ctx)` for each region and each of its n shares, and a region begins when the one before is done (`regions.py`,
with the order of everything in docs/runtime.md). Who does a share is open: a worker claims its own first, then those
that nobody has begun. `tilewright_run_task(task, n)` is the same for a function that is one region, and the turns of
`tilewright_repeat(loop, n)` are such launches too. `tilewright_parallel_run(fn, args, n)` is a launch of one region
that just n workers do, the caller being worker 0, whoever has to be waited for: for measurements.

*Launch.* Every other worker has its own cache line with a `ticket` word: a launch adds one to the tickets of the
workers it needs, and leaves the others asleep. Launches from several Python threads take turns (`@lock`); a launch
from inside a launch runs on its own thread alone. The caller is free as soon as all shares are done: nobody is within
`fn` then, and a worker that comes too late finds the launch closed.

*Barrier*, within a region. An arrival counter and an epoch. The last to arrive resets the counter and bumps the epoch;
the others wait for the epoch to change. With one worker it returns at once. When a worker's function fails, the barrier
is broken: it no longer holds anybody, so that the others run to their end rather than wait for a worker that is gone.

*Waiting* is the same everywhere (`@wait_for_change`): spin with pause for up to 100 us, then sleep in a futex, so that
an idle process uses no processor time. With more workers than processors there is no spinning beyond the first
microsecond, as the worker waited for may need this very processor. There is no sched_yield: beside busy processes, one
yield was seen to cost a worker 3 ms and more.

*Placement.* On a busy machine the kernel may wake a worker on its caller's processor, and then leaves the two there,
each waiting for the other to stop spinning: 100 us a barrier, or half the speed where kernels run for long. So a worker
notes its processor wherever it waits, and when four waits in a row find two together, one is moved to a processor
without a worker (`@part`).

*Sleep and wake.* A sleeper adds itself to a `sleepers` count and then looks at the word again (in the kernel, inside
futex); a waker changes the word and then looks at `sleepers`; both sequentially consistent: one sees the other.

*Fork.* The child has only the forking thread: `tilewright_pool_forget` makes the pool empty again, without joining.
"""

from __future__ import annotations

from tilewright.codegen.native.adaptive import ADAPTIVE, LIMITS
from tilewright.codegen.native.regions import REGIONS
from tilewright.codegen.native.repeat import REPEAT
from tilewright.codegen.native.steps import steps_text
from tilewright.codegen.native.waiting import WAITING
from tilewright.runtime.native import KINDS
from tilewright.runtime.threads import MAX_WORKERS

# name -> (numbers of the system calls futex and gettid, intrinsic that tells the core that it is in a spin loop, its
# parameter, its argument)
_MACHINES = {
    "x86_64": (202, 186, "llvm.x86.sse2.pause", "", ""),
    "aarch64": (98, 178, "llvm.aarch64.isb", "i32", "i32 15"),
    "riscv64": (98, 178, "llvm.sideeffect", "", ""),  # its pause is an extension, which boards may lack
}

_SPIN_NANOSECONDS = 100_000
_GRACE_NANOSECONDS = 50_000
_OFTEN = 4
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129
_SIG_SETMASK = 2
_CLOCK_MONOTONIC = 1


def supported_machines() -> tuple[str, ...]:
    """The architectures (as `platform.machine()` spells them) this text can be made for."""
    return tuple(_MACHINES)


def pool_text(machine: str) -> str:
    """The IR of the whole native runtime for `machine` ("x86_64", "aarch64" or "riscv64")."""
    futex, gettid, pause, pause_type, pause_argument = _MACHINES[machine]
    values = {
        "FUTEX": futex,
        "GETTID": gettid,
        "PAUSE": f"@{pause}({pause_argument})",
        "PAUSE_DECLARATION": f"@{pause}({pause_type})",
        "MAX_WORKERS": MAX_WORKERS,
        "SPIN_NS": _SPIN_NANOSECONDS,
        "OFTEN": _OFTEN - 1,
        "FUTEX_WAIT": _FUTEX_WAIT_PRIVATE,
        "FUTEX_WAKE": _FUTEX_WAKE_PRIVATE,
        "SIG_SETMASK": _SIG_SETMASK,
        "CLOCK": _CLOCK_MONOTONIC,
        **LIMITS,
        "GRACE_NS": _GRACE_NANOSECONDS,
        "POSITIONS": (1 << 52) - 1,
        "CLOSED": (1 << 55) - 8,
        "TURN_SLEEPERS": "getelementptr (i8, ptr @turn, i64 8)",
        "TEAM_SLEEPERS": "getelementptr (i8, ptr @team, i64 8)",
        **{kind.upper(): number for kind, number in KINDS.items()},
    }
    text = "\n".join(
        (
            _DECLARATIONS,
            WAITING,
            REGIONS,
            _BARRIER,
            _WORKER,
            _LAUNCH,
            ADAPTIVE,
            _CONTROL,
            CALL_WITH_WORKER_MEMORY,
            REPEAT,
        )
    )
    text += steps_text()
    for name, value in values.items():
        text = text.replace(f"${name}$", str(value))
    return text


_DECLARATIONS = """\
%Context = type { i32, i32, ptr, i32 }                          ; for compiled code: worker, workers, barrier, region
%Barrier = type { i32, [60 x i8], i32, i32, i32, [52 x i8] }    ; arrived | its own line: epoch, sleepers, broken
%Worker  = type { i32, i32, i32, i32, i64, [40 x i8] }          ; ticket, sleepers, index, thread id, pthread_t

@barrier    = internal global %Barrier zeroinitializer, align 64
@workers    = internal global [$MAX_WORKERS$ x %Worker] zeroinitializer, align 64

; One launch: written by the caller while it holds @lock and before it hands out tickets.
@fn         = internal global ptr null, align 64
@args       = internal global ptr null
@count      = internal global i32 0                             ; workers taking part, the caller included
@spin_ns    = internal global i64 $SPIN_NS$                     ; how long waits of this launch spin
@kinds      = internal global ptr null                          ; of the launch's regions, a byte each
@regions    = internal global i32 0
@base       = internal global i64 0                             ; the position of the first region
@cpus       = internal global [$MAX_WORKERS$ x i32] zeroinitializer, align 64 ; 1 + where each worker last waited, or 0
@together   = internal global i32 0, align 64                   ; waits in a row that found two workers on one processor
@stolen     = internal global i64 0, align 64                   ; ns that the others lacked while the caller slept
@most_stolen = internal global i64 0                            ; with more the caller does the rest alone
@status     = internal global i32 0                             ; the first failing worker's code

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
declare i32 @clock_gettime(i32, ptr)
declare i64 @syscall(i64, ...)
declare void $PAUSE_DECLARATION$
declare i32 @llvm.smin.i32(i32, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
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
; The life of a thread: wait for a ticket, then do what there is to do.
define internal ptr @worker_main(ptr %self) {
entry:
  %sleepers.p = getelementptr %Worker, ptr %self, i32 0, i32 1
  %index.p = getelementptr %Worker, ptr %self, i32 0, i32 2
  %index = load i32, ptr %index.p
  %tid.p = getelementptr %Worker, ptr %self, i32 0, i32 3
  %tid.64 = call i64 (i64, ...) @syscall(i64 $GETTID$)
  %tid = trunc i64 %tid.64 to i32
  store atomic i32 %tid, ptr %tid.p monotonic, align 4
  br label %idle
idle:
  %seen = phi i32 [ 0, %entry ], [ %ticket, %work ]
  call void @wait_for_change(ptr %self, i32 %seen, ptr %sleepers.p, i32 %index)
  call i32 @note_processor(i32 %index)
  %ticket = load atomic i32, ptr %self acquire, align 4
  %stopping = load i32, ptr @stopping
  %stop = icmp ne i32 %stopping, 0
  br i1 %stop, label %leave, label %work
work:
  call void @work(i32 %index)
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
@fixed      = internal constant i8 $FIXED$

; Run fn(args, ctx) on %wanted workers, the caller being worker 0; return 0 or a failing worker's code.
define i32 @tilewright_parallel_run(ptr %fn, ptr %args, i32 %wanted) {
entry:
  %shared = call i1 @may_share(i32 %wanted)
  br i1 %shared, label %launch, label %alone
launch:
  %stolen.p = alloca i64, align 8
  %code = call i32 @launch(ptr %fn, ptr @fixed, i32 1, ptr %args, i32 %wanted, i64 $HEAVY_NS$, ptr %stolen.p)
  ret i32 %code
alone:
  %ctx = alloca %Context, align 16
  call void @by_oneself(ptr %ctx)
  %code.alone = call i32 %fn(ptr %args, ptr %ctx)
  ret i32 %code.alone
}

define internal void @by_oneself(ptr %ctx) {
  call void @llvm.memset.p0.i64(ptr %ctx, i8 0, i64 24, i1 false)
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  store i32 1, ptr %workers.p
  ret void
}

; Whether others are to be called. A launch inside a launch would wait for itself: it runs alone.
define internal i1 @may_share(i32 %wanted) {
entry:
  %several = icmp sgt i32 %wanted, 1
  br i1 %several, label %check, label %no
check:
  %self = call i64 @pthread_self()
  %owner = load atomic i64, ptr @owner monotonic, align 8
  %outer = icmp ne i64 %self, %owner
  ret i1 %outer
no:
  ret i1 0
}

; %stolen.p gets the time for which others lost their processors while the caller waited for them; after %most of it
; the caller does the rest alone.
define internal i32 @launch(ptr %fn, ptr %kinds, i32 %regions, ptr %args, i32 %wanted, i64 %most, ptr %stolen.p) {
entry:
  call i32 @pthread_mutex_lock(ptr @lock)
  %self = call i64 @pthread_self()
  store atomic i64 %self, ptr @owner monotonic, align 8
  %workers = call i32 @grow(i32 %wanted)
  %helpers = sub i32 %workers, 1
  %processors = load i32, ptr @processors
  %crowded = icmp sgt i32 %workers, %processors
  %spin = select i1 %crowded, i64 0, i64 $SPIN_NS$
  store i64 %spin, ptr @spin_ns
  store ptr %fn, ptr @fn
  store ptr %args, ptr @args
  store ptr %kinds, ptr @kinds
  store i32 %regions, ptr @regions
  store i32 %workers, ptr @count
  store i32 0, ptr @status
  store i32 0, ptr @absent
  store atomic i64 0, ptr @stolen monotonic, align 8
  store i64 %most, ptr @most_stolen
  store i32 0, ptr @barrier                       ; a run that broke the barrier may have left arrivals behind
  store i32 0, ptr getelementptr (%Barrier, ptr @barrier, i32 0, i32 4)
  call i32 @note_processor(i32 0)
  %turn = load atomic i64, ptr @turn monotonic, align 8
  %shifted = lshr i64 %turn, 3
  %before = and i64 %shifted, $POSITIONS$
  %base = add i64 %before, 1
  store i64 %base, ptr @base
  call void @open(i64 %base, i64 0)               ; releases the stores above
  %any = icmp sgt i32 %helpers, 0
  br i1 %any, label %call, label %own
call:
  %i = phi i32 [ 0, %entry ], [ %i.next, %call ]
  %worker = getelementptr [$MAX_WORKERS$ x %Worker], ptr @workers, i32 0, i32 %i
  %sleepers.p = getelementptr %Worker, ptr %worker, i32 0, i32 1
  call void @change(ptr %worker, ptr %sleepers.p)
  %i.next = add i32 %i, 1
  %more = icmp slt i32 %i.next, %helpers
  br i1 %more, label %call, label %own
own:                                              ; until the launch is closed
  call void @work(i32 0)
  %stolen = load atomic i64, ptr @stolen monotonic, align 8
  store i64 %stolen, ptr %stolen.p
  %status = load atomic i32, ptr @status acquire, align 4
  store atomic i64 0, ptr @owner monotonic, align 8
  call i32 @pthread_mutex_unlock(ptr @lock)
  ret i32 %status
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
  %turn = load i64, ptr @turn
  %closed = and i64 %turn, $CLOSED$
  store i64 %closed, ptr @turn                    ; positions go on from here: claims hold those of the past
  store i32 0, ptr $TURN_SLEEPERS$
  store i32 0, ptr $TEAM_SLEEPERS$
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
