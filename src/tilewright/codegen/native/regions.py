"""The part of the native runtime's IR text that shares out work: regions, claims of shares, and teams.

`pool.py` puts it together with the rest, explains the protocol, and replaces the $NAMES$.
"""

from __future__ import annotations

REGIONS = """\
; @turn says what there is to do, in one word that is read at once: 1 | kind << 1 | position << 3 | workers << 55. Bit 0
; is 0 between launches. The position counts the regions of all launches, so that no two regions have the same.
@turn   = internal global { i64, i32, [52 x i8] } zeroinitializer, align 64       ; that word, sleepers
@left   = internal global i32 0, align 64                                         ; shares of the region not yet done
@claims = internal global [$MAX_WORKERS$ x [8 x i64]] zeroinitializer, align 64   ; where each share was claimed last
@team   = internal global { i64, i32, [52 x i8] } zeroinitializer, align 64       ; position << 16 | frozen << 15 | size
@absent = internal global i32 0                                                   ; the last team was not complete

; One worker's call of the function for region %position.
define internal void @do_share(i32 %worker, i32 %workers, i64 %position) {
entry:
  %ctx = alloca %Context, align 16
  %base = load i64, ptr @base
  %fn = load ptr, ptr @fn
  %args = load ptr, ptr @args
  %region.64 = sub i64 %position, %base
  %region = trunc i64 %region.64 to i32
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %barrier.p = getelementptr %Context, ptr %ctx, i32 0, i32 2
  %region.p = getelementptr %Context, ptr %ctx, i32 0, i32 3
  store i32 %worker, ptr %ctx
  store i32 %workers, ptr %workers.p
  store ptr @barrier, ptr %barrier.p
  store i32 %region, ptr %region.p
  %code = call i32 %fn(ptr %args, ptr %ctx)
  call void @note(i32 %code)
  %before = atomicrmw sub ptr @left, i32 1 acq_rel
  %last = icmp eq i32 %before, 1
  br i1 %last, label %advance, label %done
advance:
  call void @advance(i64 %position)
  br label %done
done:
  ret void
}

; All shares of a region are done: open the next one, or close the launch behind the last one and after a failure.
define internal void @advance(i64 %position) {
entry:
  %base = load i64, ptr @base
  %regions = load i32, ptr @regions
  %next = add i64 %position, 1
  %done = sub i64 %next, %base
  %regions.64 = zext i32 %regions to i64
  %status = load atomic i32, ptr @status acquire, align 4
  %fine = icmp eq i32 %status, 0
  %some = icmp ult i64 %done, %regions.64
  %on = and i1 %fine, %some
  br i1 %on, label %open, label %close
open:
  call void @open(i64 %next, i64 %done)
  ret void
close:
  %closed = shl i64 %next, 3
  call void @show(i64 %closed)
  ret void
}

; Open the region at %position, the launch's number %region.
define internal void @open(i64 %position, i64 %region) {
  %kinds = load ptr, ptr @kinds
  %all = load i32, ptr @count
  %stolen = load atomic i64, ptr @stolen monotonic, align 8
  %most = load i64, ptr @most_stolen
  %heavy = icmp sgt i64 %stolen, %most
  %count = select i1 %heavy, i32 1, i32 %all      ; the caller does the rest of a run that waits all the time
  %kind.p = getelementptr i8, ptr %kinds, i64 %region
  %kind.8 = load i8, ptr %kind.p
  %kind = zext i8 %kind.8 to i64
  %alone = icmp eq i64 %kind, $ALONE$
  %shares = select i1 %alone, i32 1, i32 %count
  store atomic i32 %shares, ptr @left monotonic, align 4
  %count.64 = zext i32 %count to i64
  %high = shl i64 %count.64, 55
  %middle = shl i64 %position, 3
  %low = shl i64 %kind, 1
  %a = or i64 %high, %middle
  %b = or i64 %low, 1
  %turn = or i64 %a, %b
  call void @show(i64 %turn)
  ret void
}

define internal void @show(i64 %turn) {
  atomicrmw xchg ptr @turn, i64 %turn seq_cst
  call void @wake(ptr @turn, ptr $TURN_SLEEPERS$)
  ret void
}

; Whether share %share at %position is the caller's now. It is nobody's twice: a region ends when all its shares are
; done, so whoever comes with an old position finds that one or a later one here.
define internal i1 @claim(i32 %share, i64 %position) {
entry:
  %claim.p = getelementptr [$MAX_WORKERS$ x [8 x i64]], ptr @claims, i32 0, i32 %share
  %known = load atomic i64, ptr %claim.p monotonic, align 8
  %free = icmp ult i64 %known, %position
  br i1 %free, label %try, label %taken
try:
  %swapped = cmpxchg ptr %claim.p, i64 %known, i64 %position acq_rel acquire
  %won = extractvalue { i64, i1 } %swapped, 1
  ret i1 %won
taken:
  ret i1 0
}

; Worker %self does what there is to do until the launch is closed, or as long as it takes part.
define internal void @work(i32 %self) {
entry:
  br label %again
again:
  %turn = load atomic i64, ptr @turn acquire, align 8
  %old = trunc i64 %turn to i32
  %bit = and i64 %turn, 1
  %closed = icmp eq i64 %bit, 0
  br i1 %closed, label %leave, label %opened
opened:
  %count.64 = lshr i64 %turn, 55
  %count = trunc i64 %count.64 to i32
  %member = icmp slt i32 %self, %count
  br i1 %member, label %what, label %leave
what:
  %shifted = lshr i64 %turn, 3
  %position = and i64 %shifted, $POSITIONS$
  %kind.shifted = lshr i64 %turn, 1
  %kind = and i64 %kind.shifted, 3
  %meets = icmp eq i64 %kind, $MEETING$
  br i1 %meets, label %meeting, label %shares
meeting:
  call void @meet(i32 %self, i32 %count, i64 %position)
  br label %wait
shares:
  %fixed = icmp eq i64 %kind, $FIXED$
  %alone = icmp eq i64 %kind, $ALONE$
  %limit = select i1 %alone, i32 1, i32 %count
  br label %next
next:                                             ; its own share, then what nobody has begun, the neighbour's first
  %i = phi i32 [ 0, %shares ], [ %i.next, %tried ]
  %sum = add i32 %self, %i
  %share = urem i32 %sum, %count
  %exists = icmp slt i32 %share, %limit
  br i1 %exists, label %try, label %skip
try:
  %won = call i1 @claim(i32 %share, i64 %position)
  br i1 %won, label %do, label %skip
do:
  call void @do_share(i32 %share, i32 %count, i64 %position)
  br label %skip
skip:
  %i.next = add i32 %i, 1
  %first = icmp eq i32 %i, 0
  br i1 %first, label %grace, label %tried
grace:                                            ; whoever is running begins a share within a microsecond
  %soon = call i1 @look(ptr @turn, i32 %old)
  br i1 %soon, label %again, label %others
others:
  br i1 %fixed, label %wait, label %tried
tried:
  %more = icmp slt i32 %i.next, %count
  br i1 %more, label %next, label %wait
wait:
  call void @wait_for_change(ptr @turn, i32 %old, ptr $TURN_SLEEPERS$, i32 %self)
  br label %again
leave:
  ret void
}

; A region within which workers meet: those who are here make up its team. The first to come waits for the others a
; little and then freezes the team; with all present each has its own number, else the one in the order of coming.
define internal void @meet(i32 %self, i32 %count, i64 %position) {
entry:
  br label %enlist
enlist:
  %word = load atomic i64, ptr @team acquire, align 8
  %of = lshr i64 %word, 16
  %later = icmp ugt i64 %of, %position
  br i1 %later, label %done, label %compare
compare:
  %same = icmp eq i64 %of, %position
  br i1 %same, label %begun, label %first
begun:
  %frozen.bit = and i64 %word, 32768
  %frozen = icmp ne i64 %frozen.bit, 0
  br i1 %frozen, label %done, label %join
join:
  %rank.64 = and i64 %word, 32767
  %joined = add i64 %word, 1
  %join.swap = cmpxchg ptr @team, i64 %word, i64 %joined seq_cst acquire
  %in = extractvalue { i64, i1 } %join.swap, 1
  br i1 %in, label %member, label %enlist
first:
  %fresh = shl i64 %position, 16
  %one = or i64 %fresh, 1
  %first.swap = cmpxchg ptr @team, i64 %word, i64 %one seq_cst acquire
  %leads = extractvalue { i64, i1 } %first.swap, 1
  br i1 %leads, label %lead, label %enlist

member:                                           ; until the team is frozen
  %m.word = load atomic i64, ptr @team acquire, align 8
  %m.bit = and i64 %m.word, 32768
  %m.frozen = icmp ne i64 %m.bit, 0
  br i1 %m.frozen, label %run, label %m.wait
m.wait:
  %m.old = trunc i64 %m.word to i32
  call void @wait_for_change(ptr @team, i32 %m.old, ptr $TEAM_SLEEPERS$, i32 %self)
  br label %member

lead:                                             ; a worker that sleeps needs some time to come
  %count.64 = zext i32 %count to i64
  %spin = load i64, ptr @spin_ns
  %absent = load i32, ptr @absent
  %known = icmp ne i32 %absent, 0
  %crowded = icmp eq i64 %spin, 0
  %short = or i1 %known, %crowded
  %patience = select i1 %short, i64 0, i64 $GRACE_NS$
  %start = call i64 @now()
  br label %gather
gather:
  %g.word = load atomic i64, ptr @team acquire, align 8
  %g.count = and i64 %g.word, 32767
  %complete = icmp eq i64 %g.count, %count.64
  br i1 %complete, label %freeze, label %g.look
g.look:
  %g.old = trunc i64 %g.word to i32
  %g.more = call i1 @look(ptr @team, i32 %g.old)
  br i1 %g.more, label %gather, label %g.clock
g.clock:
  %now = call i64 @now()
  %spent = sub i64 %now, %start
  %patient = icmp slt i64 %spent, %patience
  br i1 %patient, label %gather, label %freeze
freeze:
  %f.word = load atomic i64, ptr @team acquire, align 8
  %f.count.64 = and i64 %f.word, 32767
  %f.count = trunc i64 %f.count.64 to i32
  store atomic i32 %f.count, ptr @left monotonic, align 4   ; before the others may begin
  %f.frozen = or i64 %f.word, 32768
  %f.swap = cmpxchg ptr @team, i64 %f.word, i64 %f.frozen seq_cst acquire
  %f.done = extractvalue { i64, i1 } %f.swap, 1
  br i1 %f.done, label %tell, label %freeze
tell:
  %f.missing = icmp ne i32 %f.count, %count
  %f.absent = zext i1 %f.missing to i32
  store i32 %f.absent, ptr @absent
  call void @wake(ptr @team, ptr $TEAM_SLEEPERS$)
  br label %run
run:
  %rank = phi i64 [ %rank.64, %member ], [ 0, %tell ]
  %team = phi i64 [ %m.word, %member ], [ %f.frozen, %tell ]
  %members.64 = and i64 %team, 32767
  %members = trunc i64 %members.64 to i32
  %rank.32 = trunc i64 %rank to i32
  %all = icmp eq i32 %members, %count
  %number = select i1 %all, i32 %self, i32 %rank.32
  call void @do_share(i32 %number, i32 %members, i64 %position)
  br label %done
done:
  ret void
}

; All regions one after the other, as one function: on one worker, or on those of a launch, which meet in between.
define i32 @tilewright_regions(ptr %fn, i32 %regions, ptr %args, ptr %ctx) {
entry:
  %own = alloca %Context, align 16
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %ctx, i64 16, i1 false)
  %region.p = getelementptr %Context, ptr %own, i32 0, i32 3
  %any = icmp sgt i32 %regions, 0
  br i1 %any, label %next, label %done
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %meet ]
  store i32 %i, ptr %region.p
  %code = call i32 %fn(ptr %args, ptr %own)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %fine
failed:
  ret i32 %code
fine:
  %i.next = add i32 %i, 1
  %more = icmp slt i32 %i.next, %regions
  br i1 %more, label %meet, label %done
meet:
  call void @tilewright_barrier(ptr %own)
  br label %next
done:
  ret i32 0
}
"""
