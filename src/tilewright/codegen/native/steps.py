"""Branches and loops around compiled segments without Python: the driver of flat programs, as LLVM IR text.

    i32 tilewright_steps(ptr frame)

runs the steps that `runtime/vm/encode.py` wrote down as 64-bit words. The frame is an array of 64-bit cells: the
position in the words, turns of loops that are left, workers, the address of the words, that of the slots that segments
are called with, what happened, 0; then the bases of addresses and the variables. An address is four words: the cell of
its base, an offset, the cell of a count and the bytes that it moves on by. All that a run knows is in the frame, so
that it can be left at any loop's end, for signals, and wherever a list has to grow, and entered again.

The result says why it was left: 0 at the end, 1 where no turns are left, 2 where the list whose number is in the cell
"what happened" is full, 3 where a segment failed with the code there, 4 on the program's error of that number.
"""

from __future__ import annotations

# opcode -> (block, words of the instruction where the next one follows it)
_BLOCKS = {
    "done": 1, "point": 6, "set": 3, "increment": 2, "jump": 0, "unless": 6, "when": 6, "back": 0, "run": 0,
    "carry": 12, "swap": 10, "copy": 10, "stack": 12, "grow": 4, "room": 4, "expect": 4, "stop": 0,
}  # fmt: skip

#: The number of each instruction.
OPCODES = {name: number for number, name in enumerate(_BLOCKS)}


def steps_text() -> str:
    """The IR text; `tilewright_parallel_run` and memcpy are declared elsewhere."""
    cases = " ".join(f"i64 {number}, label %{name}" for name, number in OPCODES.items())
    text = _STEPS.replace("$CASES$", cases)
    for name, words in _BLOCKS.items():
        text = text.replace(f"$AFTER_{name}$", f"store i64 %{name}.after, ptr %frame\n  br label %next")
        text = text.replace(f"$END_{name}$", f"%{name}.after = add i64 %pc, {words}")
    return text


_STEPS = """\
define internal i64 @cell(ptr %frame, ptr %words, i64 %index) {
  %at = getelementptr i64, ptr %words, i64 %index
  %number = load i64, ptr %at
  %cell = getelementptr i64, ptr %frame, i64 %number
  %value = load i64, ptr %cell
  ret i64 %value
}

define internal i64 @word(ptr %words, i64 %index) {
  %at = getelementptr i64, ptr %words, i64 %index
  %value = load i64, ptr %at
  ret i64 %value
}

; The address that four words from an index on describe.
define internal i64 @address(ptr %frame, ptr %words, i64 %index) {
  %base = call i64 @cell(ptr %frame, ptr %words, i64 %index)
  %second = add i64 %index, 1
  %third = add i64 %index, 2
  %fourth = add i64 %index, 3
  %offset = call i64 @word(ptr %words, i64 %second)
  %count = call i64 @cell(ptr %frame, ptr %words, i64 %third)
  %stride = call i64 @word(ptr %words, i64 %fourth)
  %moved = mul i64 %count, %stride
  %fixed = add i64 %base, %offset
  %all = add i64 %fixed, %moved
  ret i64 %all
}

define internal void @put(ptr %frame, ptr %words, i64 %index, i64 %value) {
  %at = getelementptr i64, ptr %words, i64 %index
  %number = load i64, ptr %at
  %cell = getelementptr i64, ptr %frame, i64 %number
  store i64 %value, ptr %cell
  ret void
}

; The one of two addresses that a variable does not hold; the words are its cell and the addresses.
define internal i64 @other(ptr %frame, ptr %words, i64 %variable, i64 %index) {
  %now = call i64 @cell(ptr %frame, ptr %words, i64 %variable)
  %second = add i64 %index, 4
  %one = call i64 @address(ptr %frame, ptr %words, i64 %index)
  %other = call i64 @address(ptr %frame, ptr %words, i64 %second)
  %here = icmp eq i64 %now, %one
  %chosen = select i1 %here, i64 %other, i64 %one
  ret i64 %chosen
}

define i32 @tilewright_steps(ptr %frame) {
entry:
  %turns.p = getelementptr i64, ptr %frame, i64 1
  %threads.p = getelementptr i64, ptr %frame, i64 2
  %code.p = getelementptr i64, ptr %frame, i64 3
  %slots.p = getelementptr i64, ptr %frame, i64 4
  %what.p = getelementptr i64, ptr %frame, i64 5
  %threads.64 = load i64, ptr %threads.p
  %threads = trunc i64 %threads.64 to i32
  %code = load ptr, ptr %code.p
  %slots = load ptr, ptr %slots.p
  br label %next
next:
  %pc = load i64, ptr %frame
  %at = getelementptr i64, ptr %code, i64 %pc
  %op = load i64, ptr %at
  switch i64 %op, label %done [ $CASES$ ]
done:
  ret i32 0
point:                                            ; cell, address
  $END_point$
  %point.to = call i64 @address(ptr %frame, ptr %at, i64 2)
  call void @put(ptr %frame, ptr %at, i64 1, i64 %point.to)
  $AFTER_point$
set:                                              ; cell, cell
  $END_set$
  %set.value = call i64 @cell(ptr %frame, ptr %at, i64 2)
  call void @put(ptr %frame, ptr %at, i64 1, i64 %set.value)
  $AFTER_set$
increment:                                        ; cell
  $END_increment$
  %increment.before = call i64 @cell(ptr %frame, ptr %at, i64 1)
  %increment.value = add i64 %increment.before, 1
  call void @put(ptr %frame, ptr %at, i64 1, i64 %increment.value)
  $AFTER_increment$
jump:                                             ; position in the words
  %jump.after = call i64 @word(ptr %at, i64 1)
  $AFTER_jump$
unless:                                           ; address, position in the words
  $END_unless$
  %unless.address = call i64 @address(ptr %frame, ptr %at, i64 1)
  %unless.p = inttoptr i64 %unless.address to ptr
  %unless.byte = load i8, ptr %unless.p
  %unless.false = icmp eq i8 %unless.byte, 0
  %unless.target = call i64 @word(ptr %at, i64 5)
  %unless.go = select i1 %unless.false, i64 %unless.target, i64 %unless.after
  store i64 %unless.go, ptr %frame
  br label %next
when:                                             ; address, position in the words
  $END_when$
  %when.address = call i64 @address(ptr %frame, ptr %at, i64 1)
  %when.p = inttoptr i64 %when.address to ptr
  %when.byte = load i8, ptr %when.p
  %when.false = icmp eq i8 %when.byte, 0
  %when.target = call i64 @word(ptr %at, i64 5)
  %when.go = select i1 %when.false, i64 %when.after, i64 %when.target
  store i64 %when.go, ptr %frame
  br label %next
back:                                             ; position in the words: the next turn of a loop
  %back.after = call i64 @word(ptr %at, i64 1)
  store i64 %back.after, ptr %frame
  %turns = load i64, ptr %turns.p
  %left = sub i64 %turns, 1
  store i64 %left, ptr %turns.p
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %next, label %pause
pause:
  ret i32 1
run:             ; entry, how (0 one worker, 1 workers, 2 a function of their number), how many addresses, those
  %run.entry.64 = call i64 @word(ptr %at, i64 1)
  %run.entry = inttoptr i64 %run.entry.64 to ptr
  %run.shared.64 = call i64 @word(ptr %at, i64 2)
  %run.shared = icmp ne i64 %run.shared.64, 0
  %run.own = icmp eq i64 %run.shared.64, 2
  %run.workers = select i1 %run.shared, i32 %threads, i32 1
  %run.count = call i64 @word(ptr %at, i64 3)
  %run.words = shl i64 %run.count, 2
  %run.length = add i64 %run.words, 4
  br label %run.slot
run.slot:
  %run.i = phi i64 [ 0, %run ], [ %run.next, %run.slot ]
  %run.four = shl i64 %run.i, 2
  %run.index = add i64 %run.four, 4
  %run.address = call i64 @address(ptr %frame, ptr %at, i64 %run.index)
  %run.slot.p = getelementptr i64, ptr %slots, i64 %run.i
  store i64 %run.address, ptr %run.slot.p
  %run.next = add i64 %run.i, 1
  %run.more = icmp slt i64 %run.next, %run.count
  br i1 %run.more, label %run.slot, label %run.which
run.which:
  br i1 %run.own, label %run.itself, label %run.call
run.itself:
  %run.own.code = call i32 %run.entry(ptr %slots, i32 %threads)
  br label %run.called
run.call:
  %run.pool.code = call i32 @tilewright_parallel_run(ptr %run.entry, ptr %slots, i32 %run.workers)
  br label %run.called
run.called:
  %run.code = phi i32 [ %run.own.code, %run.itself ], [ %run.pool.code, %run.call ]
  %run.after = add i64 %pc, %run.length
  store i64 %run.after, ptr %frame
  %run.fine = icmp eq i32 %run.code, 0
  br i1 %run.fine, label %next, label %run.failed
run.failed:
  %run.code.64 = sext i32 %run.code to i64
  store i64 %run.code.64, ptr %what.p
  ret i32 3
carry:                                            ; cell, cell of the value, two addresses, bytes
  $END_carry$
  %carry.now = call i64 @cell(ptr %frame, ptr %at, i64 1)
  %carry.value = call i64 @cell(ptr %frame, ptr %at, i64 2)
  %carry.same = icmp eq i64 %carry.now, %carry.value
  br i1 %carry.same, label %carry.end, label %carry.move
carry.move:
  %carry.address = call i64 @other(ptr %frame, ptr %at, i64 1, i64 3)
  %carry.bytes = call i64 @word(ptr %at, i64 11)
  %carry.from = inttoptr i64 %carry.value to ptr
  %carry.to = inttoptr i64 %carry.address to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %carry.to, ptr %carry.from, i64 %carry.bytes, i1 false)
  call void @put(ptr %frame, ptr %at, i64 1, i64 %carry.address)
  br label %carry.end
carry.end:
  $AFTER_carry$
swap:                                             ; cell, two addresses
  $END_swap$
  %swap.address = call i64 @other(ptr %frame, ptr %at, i64 1, i64 2)
  call void @put(ptr %frame, ptr %at, i64 1, i64 %swap.address)
  $AFTER_swap$
copy:                                             ; two addresses, bytes
  $END_copy$
  %copy.to.64 = call i64 @address(ptr %frame, ptr %at, i64 1)
  %copy.from.64 = call i64 @address(ptr %frame, ptr %at, i64 5)
  %copy.bytes = call i64 @word(ptr %at, i64 9)
  %copy.to = inttoptr i64 %copy.to.64 to ptr
  %copy.from = inttoptr i64 %copy.from.64 to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %copy.to, ptr %copy.from, i64 %copy.bytes, i1 false)
  $AFTER_copy$
stack:                                            ; two addresses, rows, pieces of a row, bytes of a piece
  $END_stack$
  %stack.to = call i64 @address(ptr %frame, ptr %at, i64 1)
  %stack.from = call i64 @address(ptr %frame, ptr %at, i64 5)
  %stack.rows = call i64 @word(ptr %at, i64 9)
  %stack.pieces = call i64 @word(ptr %at, i64 10)
  %stack.bytes = call i64 @word(ptr %at, i64 11)
  %stack.all = mul i64 %stack.rows, %stack.pieces
  br label %stack.test
stack.test:
  %stack.i = phi i64 [ 0, %stack ], [ %stack.next, %stack.piece ]
  %stack.more = icmp slt i64 %stack.i, %stack.all
  br i1 %stack.more, label %stack.piece, label %stack.end
stack.piece:
  %stack.row = sdiv i64 %stack.i, %stack.pieces
  %stack.piece.number = srem i64 %stack.i, %stack.pieces
  %stack.before = mul i64 %stack.piece.number, %stack.rows
  %stack.position = add i64 %stack.before, %stack.row
  %stack.to.offset = mul i64 %stack.position, %stack.bytes
  %stack.from.offset = mul i64 %stack.i, %stack.bytes
  %stack.to.64 = add i64 %stack.to, %stack.to.offset
  %stack.from.64 = add i64 %stack.from, %stack.from.offset
  %stack.to.p = inttoptr i64 %stack.to.64 to ptr
  %stack.from.p = inttoptr i64 %stack.from.64 to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %stack.to.p, ptr %stack.from.p, i64 %stack.bytes, i1 false)
  %stack.next = add i64 %stack.i, 1
  br label %stack.test
stack.end:
  $AFTER_stack$
grow:                                             ; cell of the rows, cell of the room, number of the list
  $END_grow$
  %grow.rows = call i64 @cell(ptr %frame, ptr %at, i64 1)
  %grow.room = call i64 @cell(ptr %frame, ptr %at, i64 2)
  %grow.fits = icmp slt i64 %grow.rows, %grow.room
  br i1 %grow.fits, label %grow.end, label %grow.full
grow.full:
  %grow.number = call i64 @word(ptr %at, i64 3)
  store i64 %grow.number, ptr %what.p
  ret i32 2
grow.end:
  $AFTER_grow$
room:                                             ; cell of the rows, the most there may be, error
  $END_room$
  %room.rows = call i64 @cell(ptr %frame, ptr %at, i64 1)
  %room.most = call i64 @word(ptr %at, i64 2)
  %room.error = call i64 @word(ptr %at, i64 3)
  %room.fits = icmp slt i64 %room.rows, %room.most
  store i64 %room.after, ptr %frame
  store i64 %room.error, ptr %what.p
  br i1 %room.fits, label %next, label %failed
expect:                                           ; cell of the rows, how many there must be, error
  $END_expect$
  %expect.rows = call i64 @cell(ptr %frame, ptr %at, i64 1)
  %expect.wanted = call i64 @word(ptr %at, i64 2)
  %expect.error = call i64 @word(ptr %at, i64 3)
  %expect.right = icmp eq i64 %expect.rows, %expect.wanted
  store i64 %expect.after, ptr %frame
  store i64 %expect.error, ptr %what.p
  br i1 %expect.right, label %next, label %failed
stop:                                             ; error
  %stop.error = call i64 @word(ptr %at, i64 1)
  store i64 %stop.error, ptr %what.p
  br label %failed
failed:
  ret i32 4
}
"""
