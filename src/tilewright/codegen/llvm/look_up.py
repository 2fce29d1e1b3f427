"""LLVM code for `look_up`, numbers of a table of sixteen by the lowest four bits of each lane.

================== ==========================================================
AVX-512            vpermps of the whole table
AVX2               vpermps of either half, one of them chosen by the last bit
NEON               tbl of the table's 64 bytes
anything else      choices, bit by bit
================== ==========================================================
"""

from __future__ import annotations

from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.types import register_type, splat, vector_constant
from tilewright.tir import op
from tilewright.tir.expr import Call
from tilewright.tir.look_up import ENTRIES, expand_look_up, numbers_of

_HALF = ENTRIES // 2


def look_up(b: FunctionBuilder, call: Call) -> Value:
    """The value of a `look_up` (see `tir/look_up.py`)."""
    target, lanes = b.target, call.dtype.lanes
    if target.supports("avx512f") and lanes == ENTRIES:
        return _vpermps(b, call, 0, "avx512.permvar.sf.512")
    if target.supports("avx2") and lanes == _HALF:
        low, high = (_vpermps(b, call, first, "avx2.permps") for first in (0, _HALF))
        index, kind, words = b.value(call.args[0]), register_type(call.dtype), register_type(call.args[0].dtype)
        raised = b.defined_once(f"shl {words} {index.text}, {splat(call.args[0].dtype, '28')}", index)
        upper = b.defined_once(f"icmp slt {words} {raised.text}, zeroinitializer", raised)
        return b.define(f"select <{lanes} x i1> {upper.text}, {kind} {high.text}, {kind} {low.text}", upper, low, high)
    if target.architecture == "aarch64" and lanes == ENTRIES // 4:
        return _tbl(b, call)
    return b.value(expand_look_up(call))


def _vpermps(b: FunctionBuilder, call: Call, first: int, name: str) -> Value:
    """The numbers of the table from `first` on, as many as there are lanes, by the lanes' lowest bits."""
    index, numbers = call.args[0], numbers_of(call)
    kind, words = register_type(call.dtype), register_type(index.dtype)
    table = vector_constant("float", (b.value(x).text for x in numbers[first : first + call.dtype.lanes]))
    callee = b.module.declare(f"llvm.x86.{name}", kind, f"{kind}, {words}")
    value = b.value(index)
    return b.define(f"call {kind} {callee}({kind} {table}, {words} {value.text})", value)


def _tbl(b: FunctionBuilder, call: Call) -> Value:
    """Bytes 4 i to 4 i + 3 of the table, for the number i of each lane."""
    index, numbers = call.args[0], numbers_of(call)
    dtype, four = index.dtype, 4
    kind, words, bytes_ = register_type(call.dtype), register_type(dtype), f"<{4 * four} x i8>"
    number = op.call_intrin(dtype, "bitwise_and", index, op.const(ENTRIES - 1, dtype))
    first = number * op.const(four * 0x01010101, dtype) + op.const(0x03020100, dtype)
    position = b.value(first)
    positions = b.define(f"bitcast {words} {position.text} to {bytes_}", position)
    parts = []
    for start in range(0, ENTRIES, four):
        part = vector_constant("float", (b.value(x).text for x in numbers[start : start + four]))
        parts.append(f"{bytes_} bitcast ({kind} {part} to {bytes_})")
    callee = b.module.declare("llvm.aarch64.neon.tbl4.v16i8", bytes_, ", ".join([bytes_] * (len(parts) + 1)))
    found = b.define(f"call {bytes_} {callee}({', '.join(parts)}, {bytes_} {positions.text})", positions)
    return b.define(f"bitcast {bytes_} {found.text} to {kind}", found)
