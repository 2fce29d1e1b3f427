"""The native runtime's IR text that repeats a segment: loops of the virtual machine (`runtime/vm/loop.py`)."""

from __future__ import annotations

REPEAT = """\
; %loop: { entry, slots, most turns, turns done, the test, number of pairs, number of rows, goes on, failed }, then
; pairs of slots that are swapped after a turn, then slots and the bytes that they move on by. Calls entry(slots, ctx)
; until the byte at the address of the test is 0 or there have been as many turns. Worker 0 makes the turns' changes.
%Loop = type { ptr, ptr, i64, i64, ptr, i64, i64, i64, i64 }
define i32 @tilewright_repeat(ptr %loop, ptr %ctx) {
entry:
  %slots.p = getelementptr %Loop, ptr %loop, i32 0, i32 1
  %most.p = getelementptr %Loop, ptr %loop, i32 0, i32 2
  %done.p = getelementptr %Loop, ptr %loop, i32 0, i32 3
  %test.p = getelementptr %Loop, ptr %loop, i32 0, i32 4
  %pairs.p = getelementptr %Loop, ptr %loop, i32 0, i32 5
  %rows.p = getelementptr %Loop, ptr %loop, i32 0, i32 6
  %goes.p = getelementptr %Loop, ptr %loop, i32 0, i32 7
  %failed.p = getelementptr %Loop, ptr %loop, i32 0, i32 8
  %numbers = getelementptr %Loop, ptr %loop, i32 1
  %fn = load ptr, ptr %loop
  %slots = load ptr, ptr %slots.p
  %most = load i64, ptr %most.p
  %test = load ptr, ptr %test.p
  %pairs = load i64, ptr %pairs.p
  %rows = load i64, ptr %rows.p
  %all = add i64 %pairs, %rows
  %worker = load i32, ptr %ctx
  %leads = icmp eq i32 %worker, 0
  br label %turn
turn:
  %code = call i32 %fn(ptr %slots, ptr %ctx)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %finished, label %failed
failed:                                           ; the others leave too: the barrier will not hold them any more
  store atomic i64 1, ptr %failed.p seq_cst, align 8
  ret i32 %code
finished:
  call void @tilewright_barrier(ptr %ctx)         ; nobody works on this turn any more
  br i1 %leads, label %change, label %meet
change:
  %before = load i64, ptr %done.p
  %done = add i64 %before, 1
  store i64 %done, ptr %done.p
  %any = icmp sgt i64 %all, 0
  br i1 %any, label %next, label %decide
next:
  %i = phi i64 [ 0, %change ], [ %i.next, %changed ]
  %first = shl i64 %i, 1
  %second = or disjoint i64 %first, 1
  %a.p = getelementptr i64, ptr %numbers, i64 %first
  %b.p = getelementptr i64, ptr %numbers, i64 %second
  %a = load i64, ptr %a.p
  %b = load i64, ptr %b.p
  %slot.a = getelementptr i64, ptr %slots, i64 %a
  %address = load i64, ptr %slot.a
  %swaps = icmp slt i64 %i, %pairs
  br i1 %swaps, label %swap, label %move
swap:
  %slot.b = getelementptr i64, ptr %slots, i64 %b
  %other = load i64, ptr %slot.b
  store i64 %other, ptr %slot.a
  store i64 %address, ptr %slot.b
  br label %changed
move:
  %moved = add i64 %address, %b
  store i64 %moved, ptr %slot.a
  br label %changed
changed:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %all
  br i1 %more, label %next, label %decide
decide:
  %byte = load i8, ptr %test
  %true = icmp ne i8 %byte, 0
  %room = icmp slt i64 %done, %most
  %goes = and i1 %true, %room
  %goes.64 = zext i1 %goes to i64
  store atomic i64 %goes.64, ptr %goes.p seq_cst, align 8
  br label %meet
meet:
  call void @tilewright_barrier(ptr %ctx)
  %again = load atomic i64, ptr %goes.p seq_cst, align 8
  %broken = load atomic i64, ptr %failed.p seq_cst, align 8
  %fine = icmp eq i64 %broken, 0
  %some = icmp ne i64 %again, 0
  %go = and i1 %fine, %some
  br i1 %go, label %turn, label %leave
leave:
  ret i32 0
}
"""
