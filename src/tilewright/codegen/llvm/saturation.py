"""LLVM code for numbers that are clipped to the range of a byte and rounded: AVX-512 applies a limit as it narrows.

    uint8(int32(round(min(max(x, 0), 255)))): vmaxps, vminps, vcvtps2dq, vpmovdb  =>  vmaxps, vcvtps2dq, vpmovusdb

What int32 cannot hold becomes its least value, which is more than 255 as an unsigned number. NaN becomes 0 either way.
"""

from __future__ import annotations

from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.types import register_type, splat
from tilewright.tir import expr as e

_LARGEST = 255


def saturated(b: FunctionBuilder, expr: e.Cast) -> Value | None:
    """The value of a conversion of a vector to bytes; None where it is no such one, or for processors without it."""
    if expr.dtype.element != "uint8" or not _narrows(b, expr.dtype.lanes):
        return None
    whole = expr.value
    rounded = whole.value if isinstance(whole, e.Cast) and whole.dtype.element == "int32" else None
    clipped = rounded.args[0] if isinstance(rounded, e.Call) and rounded.op == "round" else None
    if not isinstance(clipped, e.Min) or not _is(clipped.b, _LARGEST):
        return None
    raised = clipped.a
    if not isinstance(raised, e.Max) or raised.dtype.element != "float32" or not _is(raised.b, 0):
        return None
    lanes, x = expr.dtype.lanes, b.value(raised.a)
    floats, words, bytes_ = register_type(raised.dtype), f"<{lanes} x i32>", register_type(expr.dtype)
    positive = b.define(f"fcmp ogt {floats} {x.text}, zeroinitializer", x)
    number = b.define(
        f"select <{lanes} x i1> {positive.text}, {floats} {x.text}, {floats} zeroinitializer", positive, x
    )
    nearest = b.module.declare(f"llvm.lrint.v{lanes}i32.v{lanes}f32", words, floats)
    code = b.define(f"call {words} {nearest}({floats} {number.text})", number)
    least = b.module.declare(f"llvm.umin.v{lanes}i32", words, f"{words}, {words}")
    limit = splat(whole.dtype, str(_LARGEST))
    kept = b.define(f"call {words} {least}({words} {code.text}, {words} {limit})", code)
    return b.define(f"trunc {words} {kept.text} to {bytes_}", kept)


def _narrows(b: FunctionBuilder, lanes: int) -> bool:
    """True if the target has the instruction for so many lanes."""
    return b.target.supports("avx512f") and (lanes == 16 or (lanes in (4, 8) and b.target.supports("avx512vl")))


def _is(expr: e.Expr, number: float) -> bool:
    value = expr.value if isinstance(expr, e.Broadcast) else expr
    return isinstance(value, e.FloatImm) and value.value == number
