"""A program of the virtual machine as LLVM IR text: one function with branches and loops around its segments.

    i32 tilewright_program__entry(slots, ctx)       0, the code of a failed check, or that of an error of the program

All workers run it, as they run the run loop of a straight graph (`run_text.py`). Each has variables and slots of its
own, and they hold the same in all of them; the first worker copies what is copied. They meet behind a copy, and behind
each look at a condition, whose memory the next segment may write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilewright.errors import InternalError
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.vm import steps as vm
from tilewright.runtime.vm.c_program import ENTRY
from tilewright.runtime.vm.flat import FlatProgram

_HELPERS = """\
declare void @tilewright_barrier(ptr)
define internal void @move(ptr %to, ptr %from, i32 %bytes) {
entry:
  %words = and i32 %bytes, -8
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %i.word, %word ], [ %i.byte, %byte ]
  %to.p = getelementptr i8, ptr %to, i32 %i
  %from.p = getelementptr i8, ptr %from, i32 %i
  %whole = icmp ult i32 %i, %words
  br i1 %whole, label %word, label %rest
word:
  %eight = load i64, ptr %from.p, align 1
  store i64 %eight, ptr %to.p, align 1
  %i.word = add i32 %i, 8
  br label %next
rest:
  %more = icmp ult i32 %i, %bytes
  br i1 %more, label %byte, label %done
byte:
  %one = load i8, ptr %from.p
  store i8 %one, ptr %to.p
  %i.byte = add i32 %i, 1
  br label %next
done:
  ret void
}
; Rows of `outer` pieces each as slices along an inner axis; one piece is a copy.
define internal void @stack(ptr %ctx, ptr %to, ptr %from, i32 %rows, i32 %outer, i32 %bytes) {
entry:
  %worker = load i32, ptr %ctx
  %first = icmp eq i32 %worker, 0
  %all = mul i32 %rows, %outer
  br i1 %first, label %next, label %done
next:
  %i = phi i32 [ 0, %entry ], [ %i.next, %piece ]
  %more = icmp ult i32 %i, %all
  br i1 %more, label %piece, label %done
piece:
  %row = udiv i32 %i, %outer
  %inner = urem i32 %i, %outer
  %before = mul i32 %inner, %rows
  %position = add i32 %before, %row
  %to.offset = mul i32 %position, %bytes
  %from.offset = mul i32 %i, %bytes
  %to.p = getelementptr i8, ptr %to, i32 %to.offset
  %from.p = getelementptr i8, ptr %from, i32 %from.offset
  call void @move(ptr %to.p, ptr %from.p, i32 %bytes)
  %i.next = add i32 %i, 1
  br label %next
done:
  call void @tilewright_barrier(ptr %ctx)
  ret void
}
; What a loop carries to its next turn, in the one of two buffers where it does not lie now.
define internal ptr @carry(ptr %ctx, ptr %now, ptr %value, ptr %one, ptr %other, i32 %bytes) {
entry:
  %same = icmp eq ptr %now, %value
  br i1 %same, label %stays, label %moves
stays:
  ret ptr %now
moves:
  %here = icmp eq ptr %now, %one
  %target = select i1 %here, ptr %other, ptr %one
  call void @stack(ptr %ctx, ptr %target, ptr %value, i32 1, i32 1, i32 %bytes)
  ret ptr %target
}
"""


def program_text(flat: FlatProgram, manifest: Manifest, outputs: int) -> str:
    """The text for the steps of a model with so many outputs; `run_text` has what it calls."""
    printer = _Printer(flat, manifest, outputs)
    symbols = dict.fromkeys(printer.symbols)
    tables = [
        f"@k{i} = internal constant [{len(numbers)} x i{8 * dtype.numpy.itemsize}] "
        f"[{', '.join(f'i{8 * dtype.numpy.itemsize} {number}' for number in numbers)}]"
        for i, (dtype, numbers) in enumerate(flat.tables)
    ]
    return "\n".join(
        [*[f"declare i32 @{symbol}(ptr, ptr)" for symbol in symbols], _HELPERS, *tables, *printer.function(), ""]
    )


class _Printer:
    """Steps as lines of LLVM IR; a temporary is a number, unless it is a variable read where it is needed."""

    def __init__(self, flat: FlatProgram, manifest: Manifest, outputs: int) -> None:
        self.flat, self.first = flat, len(manifest.inputs) + outputs
        self.symbols = [segment.entry_symbol for segment in manifest.segments]
        self.errors = len(manifest.messages) + 1
        self.lines: list[str] = []
        self.made = 0

    def function(self) -> Iterator[str]:
        """The lines of the whole function."""
        yield f"define i32 @{ENTRY}__entry(ptr %slots, ptr %ctx) {{\nentry:"
        yield f"  %s = alloca [{self.flat.most_slots} x i64], align 16"
        for kind, count, size in (("v", self.flat.pointers, "ptr"), ("n", self.flat.counts, "i32")):
            for i in range(count):
                yield f"  %{kind}{i} = alloca {size}"
                yield f"  store {size} {'null' if size == 'ptr' else 0}, ptr %{kind}{i}"
        for number, name in enumerate(("weights", "arena", "scratch"), self.first):
            yield f"  %{name}.p = getelementptr i64, ptr %slots, i32 {number}"
            yield f"  %{name} = load ptr, ptr %{name}.p"
        self.all(self.flat.steps)
        yield from self.lines
        yield "  ret i32 0\n}"

    def define(self, text: str) -> str:
        """The name of a new value."""
        self.made += 1
        self.lines.append(f"  %t{self.made} = {text}")
        return f"%t{self.made}"

    def emit(self, text: str) -> None:
        """Add an instruction."""
        self.lines.append(f"  {text}")

    def block(self, end: str, label: str = "") -> str:
        """End a block, and begin another; its label."""
        self.made += not label
        label = label or f"b{self.made}"
        self.lines += [f"  {end.replace('$next', f'%{label}')}", f"{label}:"]
        return label

    def address(self, address: vm.Address) -> str:
        """The value of an address."""
        base = address.base
        if base.startswith("slot"):
            slot = self.define(f"getelementptr i64, ptr %slots, i32 {base[4:]}")
            text = self.define(f"load ptr, ptr {slot}")
        elif base.startswith("v"):
            text = self.define(f"load ptr, ptr %{base}")
        else:
            text = f"@{base}" if base.startswith("k") else f"%{base}"
        if address.offset:
            text = self.define(f"getelementptr i8, ptr {text}, i32 {address.offset}")
        if address.count:
            moved = self.define(f"mul i32 {self.count(address.count)}, {address.stride}")
            text = self.define(f"getelementptr i8, ptr {text}, i32 {moved}")
        return text

    def count(self, name: str) -> str:
        """The value of a length."""
        return name if name == "0" else self.define(f"load i32, ptr %{name}")

    def all(self, steps: Sequence[vm.Step]) -> None:
        """The lines of several steps."""
        for step in steps:
            self.step(step)

    def step(self, step: vm.Step) -> None:
        """The lines of one step."""
        match step:
            case vm.Label(name):
                self.block("br label $next", name)
            case vm.Jump(label, before):
                self.all(before)
                self.block(f"br label %{label}")
            case vm.Assign(before):
                self.all(before)
            case vm.Unless() | vm.Repeat():
                self.branch(step)
            case vm.Run():
                self.run(step)
            case vm.Again():
                self.again(step)
            case vm.Point(variable, address):
                self.emit(f"store ptr {self.address(address)}, ptr %{variable}")
            case vm.Count(variable, value):
                self.emit(f"store i32 {self.count(value)}, ptr %{variable}")
            case vm.Increment(variable):
                more = self.define(f"add i32 {self.count(variable)}, 1")
                self.emit(f"store i32 {more}, ptr %{variable}")
            case vm.Swap(variable, one, other):
                here = self.define(f"icmp eq ptr {self.address(vm.Address(variable))}, {self.address(one)}")
                target = self.define(f"select i1 {here}, ptr {self.address(other)}, ptr {self.address(one)}")
                self.emit(f"store ptr {target}, ptr %{variable}")
            case vm.Copy(target, source, nbytes):
                self.stack(target, source, 1, 1, nbytes)
            case vm.Stack(target, source, length, outer, nbytes):
                self.stack(target, source, length, outer, nbytes)
            case vm.Room(count, most, error):
                self.require(f"icmp slt i32 {self.count(count)}, {most}", error)
            case vm.Expect(count, length, error):
                self.require(f"icmp eq i32 {self.count(count)}, {length}", error)
            case vm.Stop(error):
                self.block(f"ret i32 {self.errors + error}")
            case _:
                raise InternalError(f"there is no LLVM IR for the step {step}")

    def stack(self, target: vm.Address, source: vm.Address, length: int, outer: int, nbytes: int) -> None:
        """Copy pieces, and meet."""
        to, start = self.address(target), self.address(source)
        self.emit(f"call void @stack(ptr %ctx, ptr {to}, ptr {start}, i32 {length}, i32 {outer}, i32 {nbytes})")

    def require(self, test: str, error: int) -> None:
        """End with an error of the program where a test fails."""
        holds = self.define(test)
        stop = f"stop{self.made}"
        goes_on = f"on{self.made}"
        self.block(f"br i1 {holds}, label %{goes_on}, label $next", stop)
        self.block(f"ret i32 {self.errors + error}", goes_on)

    def branch(self, step: vm.Unless | vm.Repeat) -> None:
        """Jump on a byte, once all workers looked at it; the assignments are for the way of the jump."""
        byte = self.define(f"load i8, ptr {self.address(step.test)}")
        self.emit("call void @tilewright_barrier(ptr %ctx)")
        taken = self.define(f"icmp {'eq' if isinstance(step, vm.Unless) else 'ne'} i8 {byte}, 0")
        goes_on = f"on{self.made}"
        self.block(f"br i1 {taken}, label $next, label %{goes_on}")
        self.all(step.before if isinstance(step, vm.Unless) else ())
        self.block(f"br label %{step.label}", goes_on)

    def run(self, step: vm.Run) -> None:
        """Run a segment: its addresses, then those of the memory it works in."""
        memory = [self.address(address) for address in step.addresses] + ["%weights", "%arena", "%scratch"]
        for index, text in enumerate(memory):
            word = self.define(f"ptrtoint ptr {text} to i64")
            slot = self.define(f"getelementptr i64, ptr %s, i32 {index}")
            self.emit(f"store i64 {word}, ptr {slot}")
        code = self.define(f"call i32 @{self.symbols[step.segment]}(ptr %s, ptr %ctx)")
        failed = self.define(f"icmp ne i32 {code}, 0")
        goes_on = f"on{self.made}"
        self.block(f"br i1 {failed}, label $next, label %{goes_on}")
        self.block(f"ret i32 {code}", goes_on)

    def again(self, step: vm.Again) -> None:
        """Update the carried values of a loop, all of them read before any is written."""
        values = [self.address(one.value) for one in step.carried]
        lengths = [self.count(count.value) for count in step.counts]
        for value, one in zip(values, step.carried, strict=True):
            now = self.address(vm.Address(one.variable))
            operands = f"ptr {now}, ptr {value}, ptr {self.address(one.one)}, ptr {self.address(one.other)}"
            found = self.define(f"call ptr @carry(ptr %ctx, {operands}, i32 {one.nbytes})")
            self.emit(f"store ptr {found}, ptr %{one.variable}")
        for length, count in zip(lengths, step.counts, strict=True):
            self.emit(f"store i32 {length}, ptr %{count.variable}")
        self.block(f"br label %{step.label}")
