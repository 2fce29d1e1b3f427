"""LLVM code for loads of bytes out of a table of 256 by a vector of bytes: permutations of vectors that hold the table.

AVX-512 VBMI picks out of two registers of 64 bytes in one instruction (vpermi2b), NEON out of four of 16 (tbl, tbx).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.llvm.arithmetic import permute
from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.types import register_type, splat
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir import expr as e
from tilewright.tir.buffer import Buffer

#: Elements of a table: as many as there are bytes.
ENTRIES = 256

_BYTE = DType("uint8")


def lookup_lanes(target: Target) -> int | None:
    """Bytes that the target looks up at once; None where it picks bytes out of memory one by one."""
    if target.supports("avx512vbmi") and target.vector_bits == 8 * 64:
        return 64
    return 16 if target.architecture == "aarch64" and target.supports("neon") else None


def byte_index(b: FunctionBuilder, buffer: Buffer, index: e.Expr) -> e.Expr | None:
    """The vector of bytes that `index` of a load of `buffer` is; None where that is no lookup of bytes."""
    if lookup_lanes(b.target) is None or buffer.dtype.bits != 8 or not buffer.dtype.is_int:
        return None
    size = buffer.shape[0]
    whole = len(buffer.shape) == 1 and isinstance(size, e.IntImm) and size.value == ENTRIES
    if not whole or not isinstance(index, e.Cast) or index.value.dtype.element != "uint8":
        return None
    return index.value


def lookup(b: FunctionBuilder, table: Sequence[Value], index: e.Expr) -> Value:
    """The bytes of `table`, its vectors in order, at the vector `index`."""
    lanes, width = index.dtype.lanes, lookup_lanes(b.target)
    assert width is not None
    value, kind = b.value(index), register_type(index.dtype)
    parts = []
    for first in range(0, lanes, width):
        picks = [str(lane) if lane < lanes else "poison" for lane in range(first, first + width)]
        part = permute(b, value, "poison", kind, picks, value) if width != lanes else value
        parts.append(_by_vpermi2b(b, table, part) if width == 64 else _by_tbl(b, table, part))
    kind = register_type(_BYTE.with_lanes(width))
    while len(parts) > 1:  # pairs of vectors of one width
        parts = [permute(b, x, y.text, kind, range(2 * width), x, y) for x, y in zip(parts[::2], parts[1::2])]
        width *= 2
        kind = register_type(_BYTE.with_lanes(width))
    return parts[0] if width == lanes else permute(b, parts[0], "poison", kind, range(lanes), parts[0])


def _by_vpermi2b(b: FunctionBuilder, table: Sequence[Value], index: Value) -> Value:
    """Two halves of the table by seven bits of the index, the eighth picks one."""
    bytes_ = _BYTE.with_lanes(64)
    kind = register_type(bytes_)
    callee = b.module.declare("llvm.x86.avx512.vpermi2var.qi.512", kind, ", ".join([kind] * 3))
    low, high = (
        b.define(f"call {kind} {callee}({kind} {x.text}, {kind} {index.text}, {kind} {y.text})", x, index, y)
        for x, y in (table[:2], table[2:])
    )
    upper = b.define(f"icmp slt {kind} {index.text}, zeroinitializer", index)
    return b.define(f"select <64 x i1> {upper.text}, {kind} {high.text}, {kind} {low.text}", upper, low, high)


def _by_tbl(b: FunctionBuilder, table: Sequence[Value], index: Value) -> Value:
    """Quarters of the table, each of which leaves the bytes beyond it as they are."""
    bytes_ = _BYTE.with_lanes(16)
    kind = register_type(bytes_)
    found: Value | None = None
    for quarter in range(4):
        vectors = list(table[4 * quarter : 4 * quarter + 4])
        at = b.define(f"sub {kind} {index.text}, {splat(bytes_, str(64 * quarter))}", index) if quarter else index
        operands = [*([found] if found else []), *vectors, at]
        name = "tbx4" if found else "tbl4"
        callee = b.module.declare(f"llvm.aarch64.neon.{name}.v16i8", kind, ", ".join([kind] * len(operands)))
        listed = ", ".join(f"{kind} {x.text}" for x in operands)
        found = b.define(f"call {kind} {callee}({listed})", *operands)
    assert found is not None
    return found
