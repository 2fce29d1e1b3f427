"""Functions by the classic packed C interface, as LLVM IR text beside the kernels that they call.

    int add(TVMValue* args, int* type_codes, int n, TVMValue* ret, int* ret_code, void* resource)

Each checks its arguments, tensors (`DLTensor`, compact, in the memory of the processor) and numbers, and calls a
kernel's packed entry (`llvm/module.py`). What a library needs of the program that loads it comes through slots that
this fills: `__TVMBackendParallelLaunch` starts the workers (without it there is one), `__TVMBackendParallelBarrier`
lets them meet, `__TVMAPISetLastError` takes the text of an error; the result is then -1. Working memory is of the C
library.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.errors import UnsupportedError
from tilewright.runtime.memory import ALIGNMENT, round_up
from tilewright.runtime.module import FunctionInfo, Param
from tilewright.support.dtype import DType

#: Slots that the program which loads a library fills, by the documented interface.
SLOTS = (
    "__TVMFuncCall",
    "__TVMAPISetLastError",
    "__TVMBackendGetFuncFromEnv",
    "__TVMBackendAllocWorkspace",
    "__TVMBackendFreeWorkspace",
    "__TVMBackendParallelLaunch",
    "__TVMBackendParallelBarrier",
)
#: A slot of our own: what calls Python functions (`runtime/packed.py`).
CALL_PYTHON = "__tilewright_call_packed"
#: The name of the function that a module is called by, and the module that a library was loaded as.
MAIN, CONTEXT = "__tvm_main__", "__tvm_module_ctx"

_SUFFIX = "__packed"


@dataclass(frozen=True)
class PackedText:
    """IR text, and what a library of it shows: names with the symbols that they stand for."""

    text: str
    exports: dict[str, str]


@dataclass
class _Writer:
    """The constants of one module while it is written."""

    lines: list[str] = field(default_factory=list)
    count: int = 0

    def text(self, words: str) -> str:
        """A constant string that ends with a zero byte."""
        return self._constant(f'constant [{len(words.encode()) + 1} x i8] c"{_escaped(words)}"')

    def numbers(self, values: Sequence[int]) -> str:
        """A constant array of int64."""
        listed = ", ".join([f"i64 {value}" for value in values] or ["i64 0"])
        return self._constant(f"constant [{max(len(values), 1)} x i64] [{listed}]")

    def _constant(self, value: str) -> str:
        name = f"@c{self.count}"
        self.count += 1
        self.lines.append(f"{name} = internal unnamed_addr {value}, align 8")
        return name


def packed_text(
    functions: Iterable[FunctionInfo], messages: Sequence[str], main: str, serial: Collection[str] = ()
) -> PackedText:
    """The packed functions for kernels whose failures `messages` tell (`EmittedModule`); `main` is called by default.

    Those called as in `serial` run on one worker.

    Raises `UnsupportedError` for a number of a type that the interface cannot give.
    """
    out = _Writer()
    infos = list(functions)
    bodies = ["\n".join(_function(info, info.name in serial, out)) for info in infos]
    told = [out.text(message) for message in messages]
    table = ", ".join([f"ptr {name}" for name in told] or ["ptr null"])
    out.lines.append(f"@messages = internal constant [{max(len(told), 1)} x ptr] [{table}]")
    out.lines.append(f'@{MAIN} = constant [{len(main.encode()) + 1} x i8] c"{_escaped(main)}"')
    out.lines += [f"@{name} = global ptr null" for name in (*SLOTS, CALL_PYTHON, CONTEXT)]
    entries = {f"{name}__entry" for info in infos for name in (info.name, info.workspace_function) if name}
    out.lines += [f"declare i32 @{name}(ptr, ptr)" for name in sorted(entries)]
    out.lines.append("@unreached = internal global i32 0")
    python = out.text("the function calls one of Python, which only the program that registered it can")
    helpers = _HELPERS.replace("$COUNT$", str(len(told))).replace("$PYTHON$", python)
    exports = {name: name for name in (*SLOTS, CALL_PYTHON, CONTEXT, MAIN)}
    exports |= {info.name: info.name + _SUFFIX for info in infos}
    return PackedText("\n".join([*out.lines, helpers, *bodies]), exports)


def _escaped(words: str) -> str:
    data = words.encode() + b"\0"
    return "".join([chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02x}" for byte in data])


def _function(info: FunctionInfo, serial: bool, out: _Writer) -> Iterator[str]:
    params = info.params
    given = [index for index, param in enumerate(params) if not param.inferred]
    bad = {
        "count": f"{info.name} takes {len(given)} arguments",
        "size": f"{info.name}: sizes of its arguments that must be equal are not",
        "memory": f"{info.name}: no working memory is left",
    }
    parameters = "ptr %values, ptr %codes, i32 %count, ptr %ret, ptr %kind, ptr %resource"
    yield f"define i32 @{info.name}{_SUFFIX}({parameters}) {{"
    yield f"  %slots = alloca [{len(params) + 3} x i64], align 16"
    yield "  %launch = alloca %Launch, align 16"
    yield f"  %right = icmp eq i32 %count, {len(given)}"
    yield "  br i1 %right, label %take0, label %bad.count"
    for place, index in enumerate(given):
        param = params[index]
        bad[str(place)] = f"{info.name}: argument {place} must be {_described(param)}"
        yield f"take{place}:"
        yield f"  %v{place} = getelementptr i64, ptr %values, i64 {place}"
        yield f"  %k{place} = getelementptr i32, ptr %codes, i64 {place}"
        yield f"  %code{place} = load i32, ptr %k{place}"
        yield f"  %slot{place} = getelementptr i64, ptr %slots, i64 {index}"
        yield from (_number if param.is_scalar else _tensor)(param, place, out)
    yield f"take{len(given)}:"
    yield from _sizes(info, given)
    yield from _call(info, serial)
    for label, words in bad.items():
        yield f"bad.{label}:"
        yield f"  call void @fail(ptr {out.text(words)})"
        yield "  ret i32 -1"
    yield "}"


def _described(param: Param) -> str:
    return f"{param}" if param.is_scalar else f"{param}, compact and in the memory of the processor"


def _tensor(param: Param, place: int, out: _Writer) -> Iterator[str]:
    extents = [size if isinstance(size, int) else -1 for size in param.shape or ()]
    rank = -1 if param.shape is None else len(extents)
    first, second = _type_words(DType(param.dtype))
    yield (
        f"  %ok{place} = call i1 @is_tensor(ptr %v{place}, i32 %code{place}, i32 {rank}, i32 {first}, i32 {second}, "
        f"ptr {out.numbers(extents)})"
    )
    yield f"  br i1 %ok{place}, label %is{place}, label %bad.{place}"
    yield f"is{place}:"
    yield f"  %t{place} = load ptr, ptr %v{place}"
    yield f"  %a{place} = call ptr @elements(ptr %t{place})"
    yield f"  store ptr %a{place}, ptr %slot{place}"
    yield f"  br label %take{place + 1}"


def _type_words(dtype: DType) -> tuple[int, int]:
    """The element type as DLPack has it (code, bits, lanes), and another spelling of it that programs use."""

    def word(code: int, bits: int) -> int:
        return code | bits << 8 | 1 << 16

    if dtype.is_bool:
        return word(1, 1), word(6, 8)
    if dtype.is_narrow:
        return word(1, 8), word(0, 8)
    first = word(dtype.type_code, dtype.bits)
    return first, word(1, 16) if dtype == "bfloat16" else first


def _number(param: Param, place: int, out: _Writer) -> Iterator[str]:
    dtype = DType(param.dtype)
    kinds = {"float32": "float", "float64": "double"}
    if dtype.code not in ("int", "uint", "bool", "handle") and dtype not in kinds:
        raise UnsupportedError(f"the packed interface has no numbers of type {dtype} ({param.name})")
    if dtype.code == "handle":
        yield f"  %w{place} = load i64, ptr %v{place}"
        yield f"  store i64 %w{place}, ptr %slot{place}"
        yield f"  br label %take{place + 1}"
        return
    most = 2 if dtype.is_float else 1
    yield f"  %ok{place} = icmp ule i32 %code{place}, {most}"
    yield f"  br i1 %ok{place}, label %is{place}, label %bad.{place}"
    yield f"is{place}:"
    if dtype.is_float:
        yield f"  %x{place} = call double @number(ptr %v{place}, i32 %code{place})"
        value = f"%x{place}"
        if dtype == "float32":
            yield f"  %y{place} = fptrunc double %x{place} to float"
            value = f"%y{place}"
        yield f"  store {kinds[dtype]} {value}, ptr %slot{place}"
    else:
        yield f"  %w{place} = load i64, ptr %v{place}"
        yield f"  store i64 %w{place}, ptr %slot{place}"
    yield f"  br label %take{place + 1}"


def _sizes(info: FunctionInfo, given: Sequence[int]) -> Iterator[str]:
    """Scalars that are read off shapes into their slots, and those that shapes name compared with them."""
    where = {index: place for place, index in enumerate(given)}
    for index, scalar in enumerate(info.params):
        uses = [
            (where[i], d)
            for i, param in enumerate(info.params)
            for d, extent in enumerate(param.shape or ())
            if scalar.is_scalar and extent == scalar.name
        ]
        if not uses:
            continue
        yield f"  %s{index} = getelementptr i64, ptr %slots, i64 {index}"
        for number, (place, d) in enumerate(uses):
            name = f"%e{index}.{number}"
            yield f"{name} = call i64 @extent(ptr %t{place}, i64 {d})"
            if scalar.inferred and number == 0:
                yield f"  store i64 {name}, ptr %s{index}"
                continue
            yield f"{name}.l = load i64, ptr %s{index}"
            yield f"{name}.ok = icmp eq i64 {name}.l, {name}"
            label = f"size{index}.{number}"
            yield f"  br i1 {name}.ok, label %{label}, label %bad.size"
            yield f"{label}:"


def _call(info: FunctionInfo, serial: bool) -> Iterator[str]:
    """Working memory, the launch, and the result."""
    count = len(info.params)
    has_memory = bool(info.workspace_bytes or info.worker_workspace_bytes or info.workspace_function)
    shared = str(round_up(info.workspace_bytes, ALIGNMENT))
    private = str(round_up(info.worker_workspace_bytes, ALIGNMENT))
    if info.workspace_function:
        yield "  %sizes = alloca [2 x i64], align 16"
        yield f"  %m = getelementptr i64, ptr %slots, i64 {count}"
        yield "  store ptr %sizes, ptr %m"
        yield "  %alone = alloca %Context, align 16"
        yield "  store %Context { i32 0, i32 1, ptr null }, ptr %alone"
        yield f"  %measured = call i32 @{info.workspace_function}__entry(ptr %slots, ptr %alone)"
        yield "  %shared = call i64 @whole(ptr %sizes)"
        yield "  %sizes.1 = getelementptr i64, ptr %sizes, i64 1"
        yield "  %private = call i64 @whole(ptr %sizes.1)"
        shared, private = "%shared", "%private"
    yield f"  %memory = call ptr @room(i64 {shared if has_memory else 0})"
    yield "  %none = icmp eq ptr %memory, null"
    yield "  br i1 %none, label %bad.memory, label %run"
    yield "run:"
    yield f"  %memory.p = getelementptr i64, ptr %slots, i64 {count}"
    yield "  store ptr %memory, ptr %memory.p"
    bytes_each = private if has_memory else "0"
    yield (
        f"  %code = call i32 @start(ptr %launch, ptr @{info.name}__entry, ptr %slots, i64 {count + 2}, "
        f"i64 {bytes_each}, i1 {'true' if serial else 'false'})"
    )
    yield "  call void @free(ptr %memory)"
    yield "  %result = call i32 @told(i32 %code)"
    yield "  ret i32 %result"


_HELPERS = """\
; Context: worker, workers, and here the environment of the launch. Launch: entry, slots, their number, bytes for each
; worker, failure. Tensor: data, device, its number, dimensions, type, shape, strides, offset.
%Context = type { i32, i32, ptr }
%Launch  = type { ptr, ptr, i64, i64, i32 }
%Tensor  = type { ptr, i32, i32, i32, i32, ptr, ptr, i64 }

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @fail(ptr %words) {
  %set = load ptr, ptr @__TVMAPISetLastError
  %none = icmp eq ptr %set, null
  br i1 %none, label %done, label %tell
tell:
  call void %set(ptr %words)
  br label %done
done:
  ret void
}

; The result of a function for the code of a kernel: its text where it failed.
define internal i32 @told(i32 %code) {
  %unreached = load i32, ptr @unreached
  %reached = icmp eq i32 %unreached, 0
  br i1 %reached, label %look, label %python
python:
  store i32 0, ptr @unreached
  call void @fail(ptr $PYTHON$)
  ret i32 -1
look:
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %fine, label %failed
fine:
  ret i32 0
failed:
  %index = sub i32 %code, 1
  %known = icmp ult i32 %index, $COUNT$
  br i1 %known, label %tell, label %leave
tell:
  %place = getelementptr ptr, ptr @messages, i32 %index
  %words = load ptr, ptr %place
  call void @fail(ptr %words)
  ret i32 -1
leave:
  ret i32 -1
}

define internal i1 @is_tensor(ptr %value, i32 %code, i32 %rank, i32 %type, i32 %other, ptr %extents) {
entry:
  switch i32 %code, label %no [ i32 3, label %handle
                                i32 7, label %handle
                                i32 13, label %handle ]
handle:
  %t = load ptr, ptr %value
  %null = icmp eq ptr %t, null
  br i1 %null, label %no, label %there
there:
  %device.p = getelementptr %Tensor, ptr %t, i32 0, i32 1
  %rank.p = getelementptr %Tensor, ptr %t, i32 0, i32 3
  %type.p = getelementptr %Tensor, ptr %t, i32 0, i32 4
  %shape.p = getelementptr %Tensor, ptr %t, i32 0, i32 5
  %strides.p = getelementptr %Tensor, ptr %t, i32 0, i32 6
  %device = load i32, ptr %device.p
  %own.rank = load i32, ptr %rank.p
  %own.type = load i32, ptr %type.p
  %shape = load ptr, ptr %shape.p
  %strides = load ptr, ptr %strides.p
  %plain = icmp eq i32 %device, 1
  %pinned = icmp eq i32 %device, 3
  %host = or i1 %plain, %pinned
  %same.rank = icmp eq i32 %own.rank, %rank
  %any.rank = icmp slt i32 %rank, 0
  %ranks = or i1 %same.rank, %any.rank
  %is.type = icmp eq i32 %own.type, %type
  %is.other = icmp eq i32 %own.type, %other
  %types = or i1 %is.type, %is.other
  %both = and i1 %ranks, %types
  %all = and i1 %both, %host
  %last = sub i32 %own.rank, 1
  br i1 %all, label %next, label %no
next:
  %d = phi i32 [ %last, %there ], [ %d.next, %stepped ]
  %step = phi i64 [ 1, %there ], [ %step.next, %stepped ]
  %more = icmp sge i32 %d, 0
  br i1 %more, label %look, label %yes
look:
  %extent.p = getelementptr i64, ptr %shape, i32 %d
  %extent = load i64, ptr %extent.p
  %step.next = mul i64 %step, %extent
  %d.next = sub i32 %d, 1
  br i1 %any.rank, label %stride, label %compare
compare:
  %wanted.p = getelementptr i64, ptr %extents, i32 %d
  %wanted = load i64, ptr %wanted.p
  %open = icmp slt i64 %wanted, 0
  %equal = icmp eq i64 %wanted, %extent
  %fits = or i1 %open, %equal
  br i1 %fits, label %stride, label %no
stride:
  %compact = icmp eq ptr %strides, null
  %trivial = icmp ule i64 %extent, 1
  %skip = or i1 %compact, %trivial
  br i1 %skip, label %stepped, label %strided
strided:
  %stride.p = getelementptr i64, ptr %strides, i32 %d
  %own = load i64, ptr %stride.p
  %right = icmp eq i64 %own, %step
  br i1 %right, label %stepped, label %no
stepped:
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

define internal ptr @elements(ptr %t) {
  %data = load ptr, ptr %t
  %offset.p = getelementptr %Tensor, ptr %t, i32 0, i32 7
  %offset = load i64, ptr %offset.p
  %first = getelementptr i8, ptr %data, i64 %offset
  ret ptr %first
}

define internal i64 @extent(ptr %t, i64 %d) {
  %shape.p = getelementptr %Tensor, ptr %t, i32 0, i32 5
  %shape = load ptr, ptr %shape.p
  %extent.p = getelementptr i64, ptr %shape, i64 %d
  %extent = load i64, ptr %extent.p
  ret i64 %extent
}

define internal double @number(ptr %value, i32 %code) {
  %is.float = icmp eq i32 %code, 2
  br i1 %is.float, label %float, label %int
float:
  %x = load double, ptr %value
  ret double %x
int:
  %i = load i64, ptr %value
  %y = sitofp i64 %i to double
  ret double %y
}

define internal i64 @whole(ptr %size) {
  %n = load i64, ptr %size
  %up = add i64 %n, 63
  %down = and i64 %up, -64
  ret i64 %down
}

; Memory of %n bytes and some, so that none are no failure.
define internal ptr @room(i64 %n) {
  %some = add i64 %n, 64
  %memory = call ptr @aligned_alloc(i64 64, i64 %some)
  ret ptr %memory
}

; Run the entry on the workers that the program gives, or on this one where the library was not told of any.
define internal i32 @start(ptr %launch, ptr %entry, ptr %slots, i64 %count, i64 %each, i1 %serial) {
  %slots.p = getelementptr %Launch, ptr %launch, i32 0, i32 1
  %count.p = getelementptr %Launch, ptr %launch, i32 0, i32 2
  %each.p = getelementptr %Launch, ptr %launch, i32 0, i32 3
  %failure.p = getelementptr %Launch, ptr %launch, i32 0, i32 4
  store ptr %entry, ptr %launch
  store ptr %slots, ptr %slots.p
  store i64 %count, ptr %count.p
  store i64 %each, ptr %each.p
  store i32 0, ptr %failure.p
  %parallel = load ptr, ptr @__TVMBackendParallelLaunch
  %meeting = load ptr, ptr @__TVMBackendParallelBarrier
  %no.launch = icmp eq ptr %parallel, null
  %no.barrier = icmp eq ptr %meeting, null
  %none = or i1 %no.launch, %no.barrier
  %alone = or i1 %none, %serial
  br i1 %alone, label %here, label %there
here:
  %code = call i32 @share(i32 0, i32 1, ptr null, ptr %launch)
  ret i32 %code
there:
  %status = call i32 %parallel(ptr @task, ptr %launch, i32 0)
  %failure = load atomic i32, ptr %failure.p acquire, align 4
  %known = icmp ne i32 %failure, 0
  %result = select i1 %known, i32 %failure, i32 %status
  ret i32 %result
}

define internal i32 @task(i32 %worker, ptr %env, ptr %launch) {
  %workers.p = getelementptr i8, ptr %env, i64 8
  %workers = load i32, ptr %workers.p
  %code = call i32 @share(i32 %worker, i32 %workers, ptr %env, ptr %launch)
  ret i32 %code
}

; One worker's part: its own slots where it has memory of its own, which the last of them holds.
define internal i32 @share(i32 %worker, i32 %workers, ptr %env, ptr %launch) {
entry:
  %ctx = alloca %Context, align 16
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %env.p = getelementptr %Context, ptr %ctx, i32 0, i32 2
  store i32 %worker, ptr %ctx
  store i32 %workers, ptr %workers.p
  store ptr %env, ptr %env.p
  %fn = load ptr, ptr %launch
  %slots.p = getelementptr %Launch, ptr %launch, i32 0, i32 1
  %count.p = getelementptr %Launch, ptr %launch, i32 0, i32 2
  %each.p = getelementptr %Launch, ptr %launch, i32 0, i32 3
  %failure.p = getelementptr %Launch, ptr %launch, i32 0, i32 4
  %slots = load ptr, ptr %slots.p
  %count = load i64, ptr %count.p
  %each = load i64, ptr %each.p
  %own = alloca i64, i64 %count, align 16
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %own, ptr %slots, i64 %bytes, i1 false)
  %memory = call ptr @room(i64 %each)
  %last = sub i64 %count, 1
  %last.p = getelementptr i64, ptr %own, i64 %last
  store ptr %memory, ptr %last.p
  %code = call i32 %fn(ptr %own, ptr %ctx)
  call void @free(ptr %memory)
  %ok = icmp eq i32 %code, 0
  br i1 %ok, label %done, label %failed
failed:
  store atomic i32 %code, ptr %failure.p release, align 4
  br label %done
done:
  ret i32 %code
}

define void @tilewright_barrier(ptr %ctx) {
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %workers = load i32, ptr %workers.p
  %single = icmp sle i32 %workers, 1
  br i1 %single, label %done, label %meet
meet:
  %env.p = getelementptr %Context, ptr %ctx, i32 0, i32 2
  %env = load ptr, ptr %env.p
  %worker = load i32, ptr %ctx
  %barrier = load ptr, ptr @__TVMBackendParallelBarrier
  call i32 %barrier(i32 %worker, ptr %env)
  br label %done
done:
  ret void
}

; Python functions are reached through a slot that only this package's own loader fills.
define void @tilewright_call_packed(ptr %addresses, ptr %words) {
  %call = load ptr, ptr @__tilewright_call_packed
  %none = icmp eq ptr %call, null
  br i1 %none, label %missing, label %there
missing:
  store i32 1, ptr @unreached
  br label %done
there:
  call void %call(ptr %addresses, ptr %words)
  br label %done
done:
  ret void
}
"""
