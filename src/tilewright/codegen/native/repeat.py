"""The native runtime's IR text that repeats a segment: loops of the virtual machine (`runtime/vm/loop.py`)."""

from __future__ import annotations

REPEAT = """\
; %loop: { entry, run, slots, most turns, turns done, the test, number of pairs, number of rows }, then pairs of slots
; that are swapped after a turn, then slots and the bytes that they move on by. Calls run(slots, threads), or for one
; worker entry(slots, ctx), until the byte at the address of the test is 0 or there have been as many turns. Each turn
; is a launch of its own, and the caller makes the changes behind it.
%Loop = type { ptr, ptr, ptr, i64, i64, ptr, i64, i64 }
define i32 @tilewright_repeat(ptr %loop, i32 %threads) {
entry:
  %ctx = alloca %Context, align 16
  %run.p = getelementptr %Loop, ptr %loop, i32 0, i32 1
  %slots.p = getelementptr %Loop, ptr %loop, i32 0, i32 2
  %most.p = getelementptr %Loop, ptr %loop, i32 0, i32 3
  %done.p = getelementptr %Loop, ptr %loop, i32 0, i32 4
  %test.p = getelementptr %Loop, ptr %loop, i32 0, i32 5
  %pairs.p = getelementptr %Loop, ptr %loop, i32 0, i32 6
  %rows.p = getelementptr %Loop, ptr %loop, i32 0, i32 7
  %numbers = getelementptr %Loop, ptr %loop, i32 1
  %fn = load ptr, ptr %loop
  %run = load ptr, ptr %run.p
  %slots = load ptr, ptr %slots.p
  %most = load i64, ptr %most.p
  %test = load ptr, ptr %test.p
  %pairs = load i64, ptr %pairs.p
  %rows = load i64, ptr %rows.p
  %all = add i64 %pairs, %rows
  %shares = icmp sgt i32 %threads, 1
  call void @by_oneself(ptr %ctx)
  br label %turn
turn:
  br i1 %shares, label %share, label %alone
share:
  %code.shared = call i32 %run(ptr %slots, i32 %threads)
  br label %finished
alone:
  %code.alone = call i32 %fn(ptr %slots, ptr %ctx)
  br label %finished
finished:
  %code = phi i32 [ %code.shared, %share ], [ %code.alone, %alone ]
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %change, label %leave
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
  br i1 %goes, label %turn, label %leave
leave:
  ret i32 %code
}
"""
