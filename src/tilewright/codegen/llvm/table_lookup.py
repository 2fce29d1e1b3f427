"""LLVM code for lookups in tables of 16 bytes (`tir/table_lookup.py`), by what the processor has.

======================== =====================================================
AVX-512BW, AVX2, SSSE3   vpshufb of 64, 32 or 16 bytes, the table in each 16
NEON                     tbl, 16 bytes at a time
anything else            one load from the table for each lane
======================== =====================================================

Both instructions return 0 for index 255.
"""

from __future__ import annotations

from tilewright.codegen.llvm.arithmetic import gather_lanes
from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.types import register_type
from tilewright.target import Target
from tilewright.tir.expr import Call
from tilewright.tir.table_lookup import ENTRIES

#: Lanes -> LLVM's name of the instruction and the feature it takes.
_PSHUFB = {
    16: ("ssse3.pshuf.b.128", "ssse3"),
    32: ("avx2.pshuf.b", "avx2"),
    64: ("avx512.pshuf.b.512", "avx512bw"),
}


def lookup_instruction(target: Target, lanes: int) -> str | None:
    """LLVM's name of the instruction that looks up so many bytes; None where each lane is looked up by itself."""
    if target.architecture == "aarch64" and lanes == ENTRIES:
        return "aarch64.neon.tbl1.v16i8"
    if target.architecture == "x86_64" and lanes in _PSHUFB and target.supports(_PSHUFB[lanes][1]):
        return f"x86.{_PSHUFB[lanes][0]}"
    return None


def lookup(b: FunctionBuilder, call: Call) -> Value:
    """The value of a `lookup`."""
    lanes, kind = call.dtype.lanes, register_type(call.dtype)
    table, index = (b.value(x) for x in call.args)
    name, entries = lookup_instruction(b.target, lanes), call.args[0].dtype.lanes
    if name is None:
        return _by_lanes(b, table, index, lanes, entries)
    if lanes > entries:
        listed = ", ".join(f"i32 {lane % ENTRIES}" for lane in range(lanes))
        narrow = register_type(call.args[0].dtype)
        spread = f"shufflevector {narrow} {table.text}, {narrow} poison, <{lanes} x i32> <{listed}>"
        table = b.defined_once(spread, table)
    callee = b.module.declare(f"llvm.{name}", kind, f"{kind}, {kind}")
    return b.define(f"call {kind} {callee}({kind} {table.text}, {kind} {index.text})", table, index)


def _by_lanes(b: FunctionBuilder, table: Value, index: Value, lanes: int, entries: int) -> Value:
    found = []
    for lane in range(lanes):
        at = b.defined_once(f"extractelement <{lanes} x i8> {index.text}, i64 {lane}", index)
        low = b.defined_once(f"and i8 {at.text}, {ENTRIES - 1}", at)
        start = lane // ENTRIES * ENTRIES if entries > ENTRIES else 0
        own = b.defined_once(f"or i8 {low.text}, {start}", low)
        entry = b.define(f"extractelement <{entries} x i8> {table.text}, i8 {own.text}", table, own)
        none = b.defined_once(f"icmp slt i8 {at.text}, 0", at)
        found.append(b.define(f"select i1 {none.text}, i8 0, i8 {entry.text}", none, entry))
    return gather_lanes(b, found, f"<{lanes} x i8>", "i8")


def mask_bits(b: FunctionBuilder, call: Call) -> Value:
    """The value of a `mask_bits`: a bit cast, which is vptestmb or vpmovmskb on x86."""
    (lanes,) = call.args
    value = b.value(lanes)
    return b.define(f"bitcast {register_type(lanes.dtype)} {value.text} to {register_type(call.dtype)}", value)
