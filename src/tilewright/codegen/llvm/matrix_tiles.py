"""LLVM code for products of matrix tiles by AMX (`tir/matrix_tiles.py`), and what a function with such does first.

Linux lets a process, all of its threads, use the registers once it has asked: arch_prctl(ARCH_REQ_XCOMP_PERM,
XFEATURE_XTILEDATA). Code asks by itself, so that it runs in programs of any language; a function returns the code of
`REFUSED` where the kernel refuses. The registers are set up for each call of a kernel, which takes about 80 ns, and
released behind it: what the system saves of a thread is as small as before, and nobody else's set-up is changed
meanwhile.
"""

from __future__ import annotations

from tilewright.codegen.llvm.builder import FunctionBuilder
from tilewright.errors import InternalError
from tilewright.runtime.processor import ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA
from tilewright.tir.expr import Call, Expr, IntImm, StringImm
from tilewright.tir.matrix_tiles import REGISTERS, ROW_BYTES

REFUSED = (
    "the kernel refuses this process the matrix registers (AMX) that the code was compiled for; compile it for "
    "-mattr=-amx-tile,-amx-bf16,-amx-int8"
)

#: Sets up the registers, of which it asks the kernel for permission first; false where that is refused.
_BEGIN = f"""\
@tiles__allowed = internal global i8 0
define internal i1 @tiles__begin(ptr %layout) #0 {{
  %known = load atomic i8, ptr @tiles__allowed monotonic, align 1
  %allowed = icmp ne i8 %known, 0
  br i1 %allowed, label %begin, label %ask
ask:
  %code = call i64 (i64, ...) @syscall(i64 {ARCH_PRCTL}, i64 {REQUEST_PERMISSION}, i64 {TILE_DATA})
  %granted = icmp eq i64 %code, 0
  br i1 %granted, label %note, label %refused
note:
  store atomic i8 1, ptr @tiles__allowed monotonic, align 1
  br label %begin
begin:
  call void @llvm.x86.ldtilecfg(ptr %layout)
  ret i1 true
refused:
  ret i1 false
}}"""


def begin_tiles(b: FunctionBuilder, symbol: str) -> list[str]:
    """The lines of a function's first block, before the one labelled "entry", and of the return where it cannot run."""
    shapes = [b.tile_rows.get(register, (0, 0)) for register in range(REGISTERS)]
    # palette 1, then the bytes of a row of each register from byte 16 on and their rows from byte 48 on
    rows = [count for count, _ in shapes]
    sizes = [*[part for _, width in shapes for part in (width, 0)], *[0] * 16, *rows, *[0] * 8]
    layout = ", ".join(f"i8 {byte}" for byte in [1, *[0] * 15, *sizes])
    b.module.helpers[f"tiles of {symbol}"] = f"@{symbol}__tiles = internal constant [64 x i8] [{layout}], align 64"
    b.module.declare("llvm.x86.ldtilecfg", "void", "ptr")
    b.module.declare("syscall", "i64", "i64, ...")
    b.module.helpers["tiles"] = _BEGIN
    code = b.module.message_code(REFUSED)
    return [
        "tiles:",
        *b.allocas,
        f"  %tiles.ready = call i1 @tiles__begin(ptr @{symbol}__tiles)",
        "  br i1 %tiles.ready, label %entry, label %tiles.refused",
        "tiles.refused:",
        f"  ret i32 {code}",
    ]


def release_tiles(b: FunctionBuilder) -> None:
    """Release the registers at the end of a function."""
    b.line(f"call void {b.module.declare('llvm.x86.tilerelease', 'void', '')}()")


def tile_zero(b: FunctionBuilder, call: Call) -> None:
    """Sums of 0."""
    register, rows = call.args
    _set_up(b, register, rows, ROW_BYTES)
    callee = b.module.declare("llvm.x86.tilezero", "void", "i8 immarg")
    b.line(f"call void {callee}(i8 {_number(call.args[0])})")


def tile_load(b: FunctionBuilder, call: Call) -> None:
    """Rows from memory."""
    _move(b, call, "tileloadd64", _number(call.args[-1]))


def tile_store(b: FunctionBuilder, call: Call) -> None:
    """Rows to memory."""
    _move(b, call, "tilestored64", ROW_BYTES)
    b.forget_all_reads()


def tile_product(b: FunctionBuilder, call: Call) -> None:
    """The sum and a product."""
    *registers, kind = call.args
    assert isinstance(kind, StringImm)
    callee = b.module.declare(f"llvm.x86.{kind.value}", "void", ", ".join(["i8 immarg"] * len(registers)))
    b.line(f"call void {callee}({', '.join(f'i8 {_number(x)}' for x in registers)})")


def _move(b: FunctionBuilder, call: Call, instruction: str, row_bytes: int) -> None:
    register, rows, first, second = call.args[:4]
    _set_up(b, register, rows, row_bytes)
    one, two = b.value(first), b.value(second)
    start, end = (b.defined_once(f"ptrtoint ptr {x.text} to i64", x) for x in (one, two))
    stride = b.defined_once(f"sub i64 {end.text}, {start.text}", end, start)
    callee = b.module.declare(f"llvm.x86.{instruction}", "void", "i8 immarg, ptr, i64")
    b.line(f"call void {callee}(i8 {_number(register)}, ptr {one.text}, i64 {stride.text})")


def _set_up(b: FunctionBuilder, register: Expr, rows: Expr, row_bytes: int) -> None:
    """Note the rows of a register, and their bytes."""
    shape = _number(rows), row_bytes
    if b.tile_rows.setdefault(_number(register), shape) != shape:
        raise InternalError(f"matrix register {register!r} has two numbers of rows or of their bytes in one function")


def _number(x: Expr) -> int:
    assert isinstance(x, IntImm)
    return x.value
