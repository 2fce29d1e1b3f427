"""Functions by the classic packed C interface, as LLVM IR text beside the kernels that they call.

    int add(TVMValue* args, int* type_codes, int n, TVMValue* ret, int* ret_code, void* resource)

Each checks its arguments, tensors (`DLTensor`, compact, in the memory of the processor) and numbers, and calls a
kernel's packed entry (`llvm/module.py`). What a library needs of the program that loads it comes through slots that
this fills: `__TVMBackendParallelLaunch` starts the workers (without it there is one), `__TVMBackendParallelBarrier`
lets them meet, `__TVMAPISetLastError` takes the text of an error; the result is then -1. Working memory is of the C
library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.codegen.native.packed_helpers import HELPERS
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


def packed_text(functions: Iterable[FunctionInfo], messages: Sequence[str], main: str) -> PackedText:
    """The packed functions for kernels whose failures `messages` tell (`EmittedModule`); `main` is called by default.

    Raises `UnsupportedError` for a number of a type that the interface cannot return.
    """
    out = _Writer()
    infos = list(functions)
    bodies = ["\n".join(_function(info, out)) for info in infos]
    texts = [out.text(message) for message in messages]
    table = ", ".join([f"ptr {name}" for name in texts] or ["ptr null"])
    out.lines.append(f"@messages = internal constant [{max(len(texts), 1)} x ptr] [{table}]")
    out.lines.append(f'@{MAIN} = constant [{len(main.encode()) + 1} x i8] c"{_escaped(main)}"')
    out.lines += [f"@{name} = global ptr null" for name in (*SLOTS, CALL_PYTHON, CONTEXT)]
    entries = {f"{name}__entry" for info in infos for name in (info.name, info.workspace_function) if name}
    out.lines += [f"declare i32 @{name}(ptr, ptr)" for name in sorted(entries)]
    out.lines.append("@unreached = internal global i32 0")
    python = out.text("the function calls one of Python, which only the program that registered it can")
    helpers = HELPERS.replace("$COUNT$", str(len(texts))).replace("$PYTHON$", python)
    exports = {name: name for name in (*SLOTS, CALL_PYTHON, CONTEXT, MAIN)}
    exports |= {info.name: info.name + _SUFFIX for info in infos}
    return PackedText("\n".join([*out.lines, helpers, *bodies]), exports)


def _escaped(words: str) -> str:
    data = words.encode() + b"\0"
    return "".join([chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:02x}" for byte in data])


def _function(info: FunctionInfo, out: _Writer) -> Iterator[str]:
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
    for position, index in enumerate(given):
        param = params[index]
        bad[str(position)] = f"{info.name}: argument {position} must be {_described(param)}"
        yield f"take{position}:"
        yield f"  %v{position} = getelementptr i64, ptr %values, i64 {position}"
        yield f"  %k{position} = getelementptr i32, ptr %codes, i64 {position}"
        yield f"  %code{position} = load i32, ptr %k{position}"
        yield f"  %slot{position} = getelementptr i64, ptr %slots, i64 {index}"
        yield from (_number if param.is_scalar else _tensor)(param, position, out)
    yield f"take{len(given)}:"
    yield from _sizes(info, given)
    yield from _call(info)
    for label, words in bad.items():
        yield f"bad.{label}:"
        yield f"  call void @fail(ptr {out.text(words)})"
        yield "  ret i32 -1"
    yield "}"


def _described(param: Param) -> str:
    return f"{param}" if param.is_scalar else f"{param}, compact and in the memory of the processor"


def _tensor(param: Param, position: int, out: _Writer) -> Iterator[str]:
    extents = [size if isinstance(size, int) else -1 for size in param.shape or ()]
    rank = -1 if param.shape is None else len(extents)
    first, second = _type_words(DType(param.dtype))
    yield (
        f"  %ok{position} = call i1 @is_tensor(ptr %v{position}, i32 %code{position}, "
        f"i32 {rank}, i32 {first}, i32 {second}, "
        f"ptr {out.numbers(extents)})"
    )
    yield f"  br i1 %ok{position}, label %is{position}, label %bad.{position}"
    yield f"is{position}:"
    yield f"  %t{position} = load ptr, ptr %v{position}"
    yield f"  %a{position} = call ptr @elements(ptr %t{position})"
    yield f"  store ptr %a{position}, ptr %slot{position}"
    yield f"  br label %take{position + 1}"


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


def _number(param: Param, position: int, out: _Writer) -> Iterator[str]:
    dtype = DType(param.dtype)
    kinds = {"float32": "float", "float64": "double"}
    if dtype.code not in ("int", "uint", "bool", "handle") and dtype not in kinds:
        raise UnsupportedError(f"the packed interface has no numbers of type {dtype} ({param.name})")
    if dtype.code == "handle":
        yield f"  %w{position} = load i64, ptr %v{position}"
        yield f"  store i64 %w{position}, ptr %slot{position}"
        yield f"  br label %take{position + 1}"
        return
    most = 2 if dtype.is_float else 1
    yield f"  %ok{position} = icmp ule i32 %code{position}, {most}"
    yield f"  br i1 %ok{position}, label %is{position}, label %bad.{position}"
    yield f"is{position}:"
    if dtype.is_float:
        yield f"  %x{position} = call double @number(ptr %v{position}, i32 %code{position})"
        value = f"%x{position}"
        if dtype == "float32":
            yield f"  %y{position} = fptrunc double %x{position} to float"
            value = f"%y{position}"
        yield f"  store {kinds[dtype]} {value}, ptr %slot{position}"
    else:
        yield f"  %w{position} = load i64, ptr %v{position}"
        yield f"  store i64 %w{position}, ptr %slot{position}"
    yield f"  br label %take{position + 1}"


def _sizes(info: FunctionInfo, given: Sequence[int]) -> Iterator[str]:
    """Scalars that are read off shapes into their slots, and those that shapes name compared with them."""
    where = {index: position for position, index in enumerate(given)}
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
        for number, (position, d) in enumerate(uses):
            name = f"%e{index}.{number}"
            yield f"{name} = call i64 @extent(ptr %t{position}, i64 {d})"
            if scalar.inferred and number == 0:
                yield f"  store i64 {name}, ptr %s{index}"
                continue
            yield f"{name}.l = load i64, ptr %s{index}"
            yield f"{name}.ok = icmp eq i64 {name}.l, {name}"
            label = f"size{index}.{number}"
            yield f"  br i1 {name}.ok, label %{label}, label %bad.size"
            yield f"{label}:"


def _call(info: FunctionInfo) -> Iterator[str]:
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
        f"i64 {bytes_each}, i1 {'false' if info.parallel else 'true'})"
    )
    yield "  call void @free(ptr %memory)"
    yield "  %result = call i32 @report(i32 %code)"
    yield "  ret i32 %result"
