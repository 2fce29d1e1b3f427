"""The part of the native runtime's IR text that decides whether a model's next run is shared or its caller's alone.

`pool.py` puts it together with the rest, explains it, and replaces the $NAMES$.
"""

from __future__ import annotations

#: What it goes by: times in ns, and numbers of runs.
LIMITS = {
    "STOLEN_NS": 200_000,  # waited for workers without a processor, or longer than twice the usual: a disturbed run
    "STOLEN_SHARE": 4,  # where it is more than 2^-4 of the run, too: a run of a second loses as much on any machine
    "HEAVY_NS": 10_000_000,  # so much of it, and the caller does the rest of this run alone
    "HEAVY_SHARE": 3,  # where it is more than 2^-3 of the least duration of late, too
    "TRIAL_RUNS": 4,  # alone, after a disturbed run, where it is not known how long those take
    "TRIAL_NS": 1_000_000_000,  # what is known of runs alone is this old at most
    "TRIAL_MOST_NS": 64_000_000_000,  # so old, where one trial after the other showed sharing to be faster
    "TRIAL_EVERY": 64,  # and as many runs old at least
    "HOLD_LEAST_NS": 20_000_000,  # the first stretch alone; each that follows is twice as long
    "HOLD_MOST_NS": 2_000_000_000,
}

ADAPTIVE = """\
; What is kept of a model: 0 runs alone until this time, 1 how long the next such stretch is, 2 mean duration alone,
; 3 mean duration shared, 4 runs left of a trial, 5 when a run alone ended last, 6 the least duration shared of late,
; 7 how long to wait before the next trial. Threads that run a model at the same time may overwrite each other's
; figures, which only makes them less exact.

define internal i64 @figure(ptr %state, i32 %which) {
  %p = getelementptr i64, ptr %state, i32 %which
  %value = load atomic i64, ptr %p monotonic, align 8
  ret i64 %value
}

define internal void @keep(ptr %state, i32 %which, i64 %value) {
  %p = getelementptr i64, ptr %state, i32 %which
  store atomic i64 %value, ptr %p monotonic, align 8
  ret void
}

; A mean that follows: an eighth of the way to the new value.
define internal i64 @follow(ptr %state, i32 %which, i64 %value) {
  %mean = call i64 @figure(ptr %state, i32 %which)
  %fresh = icmp eq i64 %mean, 0
  %far = sub i64 %value, %mean
  %step = sdiv i64 %far, 8
  %moved = add i64 %mean, %step
  %new = select i1 %fresh, i64 %value, i64 %moved
  call void @keep(ptr %state, i32 %which, i64 %new)
  ret i64 %new
}

; Whether the run that begins at %start is to be done by its caller alone.
define internal i1 @prefers_alone(ptr %state, i64 %start) {
  %until = call i64 @figure(ptr %state, i32 0)
  %left = call i64 @figure(ptr %state, i32 4)
  %held = icmp slt i64 %start, %until
  %tried = icmp sgt i64 %left, 0
  %alone = or i1 %held, %tried
  ret i1 %alone
}

; A run alone took from %start to %end.
define internal void @ran_alone(ptr %state, i64 %start, i64 %end) {
entry:
  %duration = sub i64 %end, %start
  %mean = call i64 @follow(ptr %state, i32 2, i64 %duration)
  call void @keep(ptr %state, i32 5, i64 %end)
  %left = call i64 @figure(ptr %state, i32 4)
  %tried = icmp sgt i64 %left, 0
  br i1 %tried, label %trial, label %done
trial:
  %fewer = sub i64 %left, 1
  call void @keep(ptr %state, i32 4, i64 %fewer)
  %over = icmp eq i64 %fewer, 0
  br i1 %over, label %judge, label %done
judge:
  call void @judge(ptr %state, i64 %end)
  br label %done
done:
  ret void
}

; A shared run took from %start to %end, in which others lost their processors for %stolen while its caller waited.
define internal void @ran_shared(ptr %state, i64 %start, i64 %end, i64 %stolen) {
entry:
  %duration = sub i64 %end, %start
  %mean = call i64 @follow(ptr %state, i32 3, i64 %duration)
  %part = ashr i64 %duration, $STOLEN_SHARE$
  %felt = icmp sgt i64 %stolen, %part
  %long = icmp sgt i64 %stolen, $STOLEN_NS$
  %lost = and i1 %felt, %long
  %old.least = call i64 @figure(ptr %state, i32 6)
  %drift = ashr i64 %old.least, 6
  %grown = add i64 %old.least, %drift
  %none.yet = icmp eq i64 %old.least, 0
  %less = icmp slt i64 %duration, %grown
  %takes = or i1 %none.yet, %less
  %least = select i1 %takes, i64 %duration, i64 %grown
  call void @keep(ptr %state, i32 6, i64 %least)
  %twice = shl i64 %least, 1
  %much = add i64 %twice, $STOLEN_NS$
  %late = icmp sgt i64 %duration, %much           ; the caller itself may have been sent away
  %disturbed = or i1 %lost, %late
  br i1 %disturbed, label %look, label %calm
calm:
  %hold = call i64 @figure(ptr %state, i32 1)
  %none = icmp eq i64 %hold, 0
  br i1 %none, label %done, label %relax
relax:
  %half = ashr i64 %hold, 1
  call void @keep(ptr %state, i32 1, i64 %half)
  br label %done
look:
  %alone = call i64 @figure(ptr %state, i32 2)
  %last = call i64 @figure(ptr %state, i32 5)
  %age = sub i64 %end, %last
  %many = mul i64 %alone, $TRIAL_EVERY$
  %longer = icmp sgt i64 %many, $TRIAL_NS$
  %least.limit = select i1 %longer, i64 %many, i64 $TRIAL_NS$
  %wait = call i64 @figure(ptr %state, i32 7)
  %waits = icmp sgt i64 %wait, %least.limit
  %limit = select i1 %waits, i64 %wait, i64 %least.limit
  %old = icmp sgt i64 %age, %limit
  br i1 %old, label %try, label %known
try:                                              ; measured so long ago that it says nothing of now
  call void @keep(ptr %state, i32 2, i64 0)
  call void @keep(ptr %state, i32 4, i64 $TRIAL_RUNS$)
  br label %done
known:
  %better = icmp slt i64 %alone, %mean
  br i1 %better, label %stay, label %done
stay:
  call void @judge(ptr %state, i64 %end)
  br label %done
done:
  ret void
}

; Stay alone for a while where that was faster, each time twice as long.
define internal void @judge(ptr %state, i64 %now) {
entry:
  %alone = call i64 @figure(ptr %state, i32 2)
  %shared = call i64 @figure(ptr %state, i32 3)
  %hold = call i64 @figure(ptr %state, i32 1)
  %better = icmp slt i64 %alone, %shared
  br i1 %better, label %stay, label %share
stay:
  %twice = shl i64 %hold, 1
  %small = icmp slt i64 %twice, $HOLD_LEAST_NS$
  %most = icmp sgt i64 %twice, $HOLD_MOST_NS$
  %raised = select i1 %small, i64 $HOLD_LEAST_NS$, i64 %twice
  %next = select i1 %most, i64 $HOLD_MOST_NS$, i64 %raised
  %until = add i64 %now, %next
  call void @keep(ptr %state, i32 1, i64 %next)
  call void @keep(ptr %state, i32 0, i64 %until)
  call void @keep(ptr %state, i32 7, i64 0)
  ret void
share:                                            ; the next trial has time
  call void @keep(ptr %state, i32 1, i64 0)
  %last = call i64 @figure(ptr %state, i32 7)
  %later = shl i64 %last, 1
  %soon = icmp slt i64 %later, $TRIAL_NS$
  %far = icmp sgt i64 %later, $TRIAL_MOST_NS$
  %at.least = select i1 %soon, i64 $TRIAL_NS$, i64 %later
  %wait = select i1 %far, i64 $TRIAL_MOST_NS$, i64 %at.least
  call void @keep(ptr %state, i32 7, i64 %wait)
  ret void
}

; Run all regions of a function, each of its kind, on up to %wanted workers; return 0 or a failing worker's code.
define i32 @tilewright_run(ptr %fn, ptr %kinds, i32 %regions, ptr %args, i32 %wanted, ptr %state) {
entry:
  %stolen.p = alloca i64, align 8
  %ctx = alloca %Context, align 16
  %any = icmp sgt i32 %regions, 0
  br i1 %any, label %some, label %none
none:
  ret i32 0
some:
  %shared = call i1 @may_share(i32 %wanted)
  br i1 %shared, label %choose, label %single
single:
  call void @by_oneself(ptr %ctx)
  %code.single = call i32 @tilewright_regions(ptr %fn, i32 %regions, ptr %args, ptr %ctx)
  ret i32 %code.single
choose:
  %start = call i64 @now()
  %better = call i1 @prefers_alone(ptr %state, i64 %start)
  br i1 %better, label %alone, label %launch
alone:
  call void @by_oneself(ptr %ctx)
  %code.alone = call i32 @tilewright_regions(ptr %fn, i32 %regions, ptr %args, ptr %ctx)
  %end.alone = call i64 @now()
  call void @ran_alone(ptr %state, i64 %start, i64 %end.alone)
  ret i32 %code.alone
launch:
  %least = call i64 @figure(ptr %state, i32 6)
  %part = ashr i64 %least, $HEAVY_SHARE$
  %longer = icmp sgt i64 %part, $HEAVY_NS$
  %most = select i1 %longer, i64 %part, i64 $HEAVY_NS$
  %code = call i32 @launch(ptr %fn, ptr %kinds, i32 %regions, ptr %args, i32 %wanted, i64 %most, ptr %stolen.p)
  %stolen = load i64, ptr %stolen.p
  %end = call i64 @now()
  call void @ran_shared(ptr %state, i64 %start, i64 %end, i64 %stolen)
  ret i32 %code
}

; %task: { function, arguments, kind (a byte), 7 bytes, the state of `tilewright_run` }: a function that is one region.
%Task = type { ptr, ptr, i8, [7 x i8], [8 x i64] }
define i32 @tilewright_run_task(ptr %task, i32 %wanted) {
  %args.p = getelementptr %Task, ptr %task, i32 0, i32 1
  %kind.p = getelementptr %Task, ptr %task, i32 0, i32 2
  %state = getelementptr %Task, ptr %task, i32 0, i32 4
  %fn = load ptr, ptr %task
  %args = load ptr, ptr %args.p
  %code = call i32 @tilewright_run(ptr %fn, ptr %kind.p, i32 1, ptr %args, i32 %wanted, ptr %state)
  ret i32 %code
}
"""
