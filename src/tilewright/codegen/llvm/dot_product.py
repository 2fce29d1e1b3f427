"""LLVM code for `dot4`, dot products of four bytes added to 32-bit lanes, by what the processor has.

======================================== ==========================================================
AVX-512 VNNI, AVX-VNNI                   vpdpbusd (unsigned by signed bytes)
NEON dotprod, i8mm                       sdot, udot; usdot
SSSE3, AVX2, AVX-512BW, sums of pairs    pmaddubsw, and pmaddwd by ones
   known to fit 16 bits
other x86                                the even and the odd bytes as 16-bit numbers, pmaddwd twice
anything else                            32-bit multiplications
======================================== ==========================================================

`dot2`, of two bfloat16 and sums in float32, is vdpbf16ps with AVX512-BF16, else multiply-adds in float32; of two int16
and sums in int32 it is pmaddwd and an addition.

`bfloat16_pair` is vcvtne2ps2bf16 with AVX512-BF16, else two conversions.

A product of 16-bit numbers in 32 bits is pmaddwd too, with zeros for their neighbours, as pmulld takes two steps of one
port. LLVM makes one vpdpwssd of it and an addition where the processor has VNNI.

pmaddubsw saturates to 16 bits, so 255 * 127 + 255 * 127 would come out wrong: it is used where the weights are known
to be so small that no pair of products can (`dot4_in_pairs`).
"""

from __future__ import annotations

from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.types import register_type, splat
from tilewright.support.dtype import DType
from tilewright.target import Target
from tilewright.tir.dot_product import expand_bfloat16_pair, expand_dot2, expand_dot4
from tilewright.tir.expr import Call, Cast, Expr, Mul

#: pmaddwd by the number of 32-bit lanes it yields: LLVM's name and the feature it takes.
_PMADDWD = {4: ("sse2.pmadd.wd", "sse2"), 8: ("avx2.pmadd.wd", "avx2"), 16: ("avx512.pmaddw.d.512", "avx512bw")}

#: pmaddubsw likewise.
_PMADDUBSW = {
    4: ("ssse3.pmadd.ub.sw.128", "ssse3"),
    8: ("avx2.pmadd.ub.sw", "avx2"),
    16: ("avx512.pmaddubs.w.512", "avx512bw"),
}


def has_vpdpbusd(target: Target, lanes: int) -> bool:
    """True if the target multiplies unsigned by signed bytes into `lanes` 32-bit sums in one instruction."""
    if lanes not in (4, 8, 16) or 32 * lanes > target.vector_bits:
        return False
    if target.supports("avx512vnni") and (lanes == 16 or target.supports("avx512vl")):
        return True
    return lanes < 16 and target.supports("avxvnni")


def dot4(b: FunctionBuilder, call: Call) -> Value:
    """The value of a `dot4` (see `tir/dot_product.py`)."""
    target, lanes = b.target, call.dtype.lanes
    unsigned = tuple([x.dtype.code == "uint" for x in call.args[1:]])
    if has_vpdpbusd(target, lanes) and unsigned[0] != unsigned[1]:
        return _vpdpbusd(b, call, unsigned[0])
    if call.op == "dot4_in_pairs" and unsigned[0] != unsigned[1] and _has(target, _PMADDUBSW, lanes):
        return _by_pmaddubsw(b, call, unsigned[0])
    name = _arm_instruction(target, lanes, unsigned)
    if name is not None:
        return _neon(b, call, name)
    if _has(target, _PMADDWD, lanes):
        return _by_pmaddwd(b, call)
    return b.value(expand_dot4(call))


def has_vdpbf16ps(target: Target, lanes: int) -> bool:
    """True if the target multiplies pairs of bfloat16 into `lanes` sums in one instruction."""
    if lanes not in (4, 8, 16) or 32 * lanes > target.vector_bits:
        return False
    return target.supports("avx512bf16") and (lanes == 16 or target.supports("avx512vl"))


def dot2(b: FunctionBuilder, call: Call) -> Value:
    """The value of a `dot2`."""
    lanes, kind = call.dtype.lanes, register_type(call.dtype)
    if call.dtype.element == "int32" and _has(b.target, _PMADDWD, lanes):
        total, x, y = map(b.value, call.args)
        return _add_pmaddwd(b, call, total, x, y)
    if call.dtype.element == "int32" or not has_vdpbf16ps(b.target, lanes):
        return b.value(expand_dot2(call))
    pairs = f"<{2 * lanes} x bfloat>"
    acc = b.value(call.args[0])
    operands = []
    for argument in call.args[1:]:
        value = b.value(argument)
        operands.append(b.defined_once(f"bitcast {register_type(argument.dtype)} {value.text} to {pairs}", value))
    x, y = operands
    callee = b.module.declare(f"llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}", kind, f"{kind}, {pairs}, {pairs}")
    return b.define(f"call {kind} {callee}({kind} {acc.text}, {pairs} {x.text}, {pairs} {y.text})", acc, x, y)


def bfloat16_pair(b: FunctionBuilder, call: Call) -> Value:
    """The value of a `bfloat16_pair`: vcvtne2ps2bf16, whose results are two vectors one behind the other."""
    lanes, kind = call.dtype.lanes, register_type(call.dtype)
    if not has_vdpbf16ps(b.target, lanes):
        return b.value(expand_bfloat16_pair(call))
    low, high = map(b.value, call.args)
    floats, pairs = f"<{lanes} x float>", f"<{2 * lanes} x bfloat>"
    callee = b.module.declare(f"llvm.x86.avx512bf16.cvtne2ps2bf16.{32 * lanes}", pairs, f"{floats}, {floats}")
    halves = b.define(f"call {pairs} {callee}({floats} {high.text}, {floats} {low.text})", low, high)
    order = ", ".join(f"i32 {lane + half * lanes}" for lane in range(lanes) for half in range(2))
    mixed = b.define(f"shufflevector {pairs} {halves.text}, {pairs} poison, <{2 * lanes} x i32> <{order}>", halves)
    return b.define(f"bitcast {pairs} {mixed.text} to {kind}", mixed)


def product_of_shorts(b: FunctionBuilder, expr: Mul) -> Value | None:
    """The product of two vectors of int16 in int32 by pmaddwd; None if `expr` is none, or without the instruction."""
    lanes = expr.dtype.lanes
    sources = [x.value for x in (expr.a, expr.b) if isinstance(x, Cast) and x.value.dtype.element == "int16"]
    if len(sources) < 2 or expr.dtype.element != "int32" or not _has(b.target, _PMADDWD, lanes):
        return None
    kind, halves = register_type(expr.dtype), register_type(DType("int16").with_lanes(2 * lanes))
    operands = []
    for source in sources:
        value = b.value(source)
        word = b.defined_once(f"zext {register_type(source.dtype)} {value.text} to {kind}", value)
        operands.append(b.defined_once(f"bitcast {kind} {word.text} to {halves}", word))
    x, y = operands
    callee = b.module.declare(f"llvm.x86.{_PMADDWD[lanes][0]}", kind, f"{halves}, {halves}")
    return b.define(f"call {kind} {callee}({halves} {x.text}, {halves} {y.text})", x, y)


def _has(target: Target, instruction: dict[int, tuple[str, str]], lanes: int) -> bool:
    """True if the target has the instruction of a table for `lanes` sums."""
    return target.architecture == "x86_64" and lanes in instruction and target.supports(instruction[lanes][1])


def _words(b: FunctionBuilder, bytes_: Expr, lanes: int) -> Value:
    """The bytes as a vector of 32-bit words."""
    value = b.value(bytes_)
    return b.defined_once(f"bitcast {register_type(bytes_.dtype)} {value.text} to <{lanes} x i32>", value)


def _vpdpbusd(b: FunctionBuilder, call: Call, unsigned_first: bool) -> Value:
    acc, a, c = call.args
    lanes = call.dtype.lanes
    if not unsigned_first:
        a, c = c, a
    kind = register_type(call.dtype)
    operands = [b.value(acc), _words(b, a, lanes), _words(b, c, lanes)]
    callee = b.module.declare(f"llvm.x86.avx512.vpdpbusd.{32 * lanes}", kind, ", ".join([kind] * 3))
    return b.define(f"call {kind} {callee}({', '.join(f'{kind} {x.text}' for x in operands)})", *operands)


def _arm_instruction(target: Target, lanes: int, unsigned: tuple[bool, ...]) -> str | None:
    if target.architecture != "aarch64" or lanes != 4 or not target.supports("dotprod"):
        return None
    if unsigned[0] != unsigned[1]:
        return "usdot" if target.supports("i8mm") else None
    return "udot" if unsigned[0] else "sdot"


def _neon(b: FunctionBuilder, call: Call, name: str) -> Value:
    acc, a, c = call.args
    if name == "usdot" and a.dtype.code == "int":
        a, c = c, a
    operands = [b.value(acc), b.value(a), b.value(c)]
    callee = b.module.declare(f"llvm.aarch64.neon.{name}.v4i32.v16i8", "<4 x i32>", "<4 x i32>, <16 x i8>, <16 x i8>")
    listed = ", ".join(f"{register_type(x.dtype)} {v.text}" for x, v in zip((acc, a, c), operands, strict=True))
    return b.define(f"call <4 x i32> {callee}({listed})", *operands)


def _by_pmaddubsw(b: FunctionBuilder, call: Call, unsigned_first: bool) -> Value:
    """Sums of pairs in 16 bits, and pairs of these in 32: exact, as the caller says that no pair saturates."""
    acc, a, c = call.args
    lanes = call.dtype.lanes
    if not unsigned_first:
        a, c = c, a
    total, x, y = b.value(acc), b.value(a), b.value(c)
    short = DType("int16").with_lanes(2 * lanes)
    kind, halves, bytes_ = register_type(call.dtype), register_type(short), register_type(a.dtype)
    pairs_of = b.module.declare(f"llvm.x86.{_PMADDUBSW[lanes][0]}", halves, f"{bytes_}, {bytes_}")
    pairs = b.define(f"call {halves} {pairs_of}({bytes_} {x.text}, {bytes_} {y.text})", x, y)
    sums_of = b.module.declare(f"llvm.x86.{_PMADDWD[lanes][0]}", kind, f"{halves}, {halves}")
    four = b.define(f"call {kind} {sums_of}({halves} {pairs.text}, {halves} {splat(short, '1')})", pairs)
    return b.define(f"add {kind} {total.text}, {four.text}", total, four)


def _by_pmaddwd(b: FunctionBuilder, call: Call) -> Value:
    """Even and odd bytes apart, so that both halves of each 32-bit lane belong to it, and no lane needs its neighbour.

    pmaddwd multiplies signed 16-bit numbers and adds neighbours in 32 bits: bytes of either sign fit, exactly.
    """
    total = b.value(call.args[0])
    for odd in (False, True):
        x, y = (_halves(b, bytes_, odd) for bytes_ in call.args[1:])
        total = _add_pmaddwd(b, call, total, x, y)
    return total


def _add_pmaddwd(b: FunctionBuilder, call: Call, total: Value, x: Value, y: Value) -> Value:
    """`total`, as `call` is typed, and the products of two vectors of int16, neighbours added."""
    lanes = call.dtype.lanes
    kind, halves = register_type(call.dtype), register_type(DType("int16").with_lanes(2 * lanes))
    callee = b.module.declare(f"llvm.x86.{_PMADDWD[lanes][0]}", kind, f"{halves}, {halves}")
    pair = b.define(f"call {kind} {callee}({halves} {x.text}, {halves} {y.text})", x, y)
    return b.define(f"add {kind} {total.text}, {pair.text}", total, pair)


def _halves(b: FunctionBuilder, bytes_: Expr, odd: bool) -> Value:
    """The even or the odd bytes as 16-bit numbers."""
    dtype = DType("int16").with_lanes(bytes_.dtype.lanes // 2)
    kind = register_type(dtype)
    value = b.value(bytes_)
    whole = b.defined_once(f"bitcast {register_type(bytes_.dtype)} {value.text} to {kind}", value)
    shift = "ashr" if bytes_.dtype.code == "int" else "lshr"
    if not odd:
        whole = b.defined_once(f"shl {kind} {whole.text}, {splat(dtype, '8')}", whole)
    return b.defined_once(f"{shift} {kind} {whole.text}, {splat(dtype, '8')}", whole)
