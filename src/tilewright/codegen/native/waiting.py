"""The part of the native runtime's IR text that waits: spinning, sleeping, and keeping workers on processors apart.

`pool.py` puts it together with the rest, explains it, and replaces the $NAMES$.
"""

from __future__ import annotations

WAITING = """\
define internal i64 @now() {
  %ns = call i64 @clock(i32 $CLOCK$)
  ret i64 %ns
}

define internal i64 @clock(i32 %which) {
  %time = alloca [2 x i64]
  call void @llvm.memset.p0.i64(ptr %time, i8 0, i64 16, i1 false)
  call i32 @clock_gettime(i32 %which, ptr %time)
  %seconds = load i64, ptr %time
  %fraction.p = getelementptr i64, ptr %time, i64 1
  %fraction = load i64, ptr %fraction.p
  %whole = mul i64 %seconds, 1000000000
  %ns = add i64 %whole, %fraction
  ret i64 %ns
}

; The processor time of all threads of this launch but the caller's. The clock of a thread is made of its number.
define internal i64 @time_of_others() {
entry:
  %count = load i32, ptr @count
  br label %test
test:
  %i = phi i32 [ 1, %entry ], [ %i.next, %next ]
  %sum = phi i64 [ 0, %entry ], [ %sum.next, %next ]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %next, label %done
next:
  %index = sub i32 %i, 1
  %tid.p = getelementptr [$MAX_WORKERS$ x %Worker], ptr @workers, i32 0, i32 %index, i32 3
  %tid = load atomic i32, ptr %tid.p monotonic, align 4
  %flipped = xor i32 %tid, -1
  %high = shl i32 %flipped, 3
  %clock = or i32 %high, 6
  %spent = call i64 @clock(i32 %clock)
  %sum.next = add i64 %sum, %spent
  %i.next = add i32 %i, 1
  br label %test
done:
  ret i64 %sum
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
  br i1 %crowded, label %announce, label %settle
settle:
  %other = call i32 @neighbour(i32 %self)
  %shared = icmp sge i32 %other, 0
  br i1 %shared, label %count, label %apart
apart:                                            ; the line is read by all: write only news
  %counted = load atomic i32, ptr @together monotonic, align 4
  %none = icmp eq i32 %counted, 0
  br i1 %none, label %spin, label %forget
forget:
  store atomic i32 0, ptr @together monotonic, align 4
  br label %spin
count:
  %before = atomicrmw add ptr @together, i32 1 monotonic
  %often = icmp sge i32 %before, $OFTEN$
  br i1 %often, label %part, label %spin
part:
  store atomic i32 0, ptr @together monotonic, align 4
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
  %leads = icmp eq i32 %self, 0
  %room = load i64, ptr @spin_ns
  %own = icmp ne i64 %room, 0
  %counts = and i1 %leads, %own                   ; more workers than processors lack them anyway
  br i1 %counts, label %asleep, label %nap
asleep:
  %slept = call i64 @now()
  %work = call i64 @time_of_others()
  call void @sleep(ptr %word, i32 %old, ptr %sleepers)
  %woken = call i64 @now()
  %more.work = call i64 @time_of_others()
  %waited = sub i64 %woken, %slept
  %worked = sub i64 %more.work, %work
  %lost = sub i64 %waited, %worked
  %any = icmp sgt i64 %lost, 0
  %loss = select i1 %any, i64 %lost, i64 0
  atomicrmw add ptr @stolen, i64 %loss monotonic
  br label %awake
nap:
  call void @sleep(ptr %word, i32 %old, ptr %sleepers)
  br label %awake
awake:
  call i32 @note_processor(i32 %self)
  br label %done
done:
  ret void
}

define internal void @sleep(ptr %word, i32 %old, ptr %sleepers) {
entry:
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
  ret void
}

; Add one to the word and wake whoever sleeps on it.
define internal void @change(ptr %word, ptr %sleepers) {
  atomicrmw add ptr %word, i32 1 seq_cst
  call void @wake(ptr %word, ptr %sleepers)
  ret void
}

; Wake whoever sleeps on a word that has just been changed.
define internal void @wake(ptr %word, ptr %sleepers) {
entry:
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
