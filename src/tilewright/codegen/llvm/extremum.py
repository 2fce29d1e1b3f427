"""LLVM code for `min` and `max`, which yield NaN where an operand is one.

AArch64 and WebAssembly have an instruction for that. Elsewhere, a comparison with NaN is false, so a comparison and a
choice, on x86 one instruction, yield the operand that is compared to. Where the other is known to be a number that is
all. Else the second operand, in a reduction the element rather than the result so far that iterations wait for, is
asked whether it is NaN: vectors of AVX-512 take the instruction under a mask of the lanes that are not, others a
comparison and a choice more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.types import register_type
from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir.op import never_nan

_NATIVE = ("aarch64", "wasm32")
#: LLVM's name of the x86 instruction on vectors, by the bits of all lanes and of one.
_X86 = {
    (128, 32): "sse.{}.ps", (256, 32): "avx.{}.ps.256", (512, 32): "avx512.{}.ps.512",
    (128, 64): "sse2.{}.pd", (256, 64): "avx.{}.pd.256", (512, 64): "avx512.{}.pd.512",
}  # fmt: skip
_CURRENT_ROUNDING = "i32 4"


def extremum(name: str, float_test: str, signed_test: str, unsigned_test: str) -> Callable[..., Value]:
    """Code for ``"min"`` or ``"max"`` of integers, float32 and float64, by the comparisons that tell which wins."""

    def emit(b: FunctionBuilder, expr: e.BinaryExpr) -> Value:
        dtype = expr.dtype
        if not dtype.is_float:
            test = signed_test if dtype.code == "int" else unsigned_test
            return _winner(b, test, dtype, b.value(expr.a), b.value(expr.b))
        if b.target.architecture in _NATIVE:
            return _call(b, f"{name}imum.{_overload(dtype)}", dtype, [b.value(expr.a), b.value(expr.b)])
        if never_nan(expr.a) or never_nan(expr.b):
            first, second = (expr.a, expr.b) if never_nan(expr.a) else (expr.b, expr.a)
            return _winner(b, float_test, dtype, b.value(first), b.value(second))
        element, other = b.value(expr.b), b.value(expr.a)
        instruction = _masked_instruction(b, dtype)
        if instruction is not None:
            immediate = _CURRENT_ROUNDING if "512" in instruction else ""
            number = b.define(f"fcmp ord {register_type(dtype)} {element.text}, {element.text}", element)
            better = _call(b, f"x86.{instruction.format(name)}", dtype, [element, other], immediate)
            return choose(b, number, dtype, better, element)
        nan = b.define(f"fcmp uno {register_type(dtype)} {element.text}, {element.text}", element)
        return _winner(b, float_test, dtype, element, choose(b, nan, dtype, element, other))

    return emit


def choose(b: FunctionBuilder, condition: Value, dtype: DType, x: Value, y: Value) -> Value:
    """`x` in the lanes where `condition` holds, `y` in the others."""
    kind, bools = register_type(dtype), register_type(DType("bool").with_lanes(dtype.lanes))
    return b.define(f"select {bools} {condition.text}, {kind} {x.text}, {kind} {y.text}", condition, x, y)


def _winner(b: FunctionBuilder, test: str, dtype: DType, x: Value, y: Value) -> Value:
    return choose(b, b.define(f"{test} {register_type(dtype)} {x.text}, {y.text}", x, y), dtype, x, y)


def _overload(dtype: DType) -> str:
    return f"f{dtype.bits}" if dtype.lanes == 1 else f"v{dtype.lanes}f{dtype.bits}"


def _masked_instruction(b: FunctionBuilder, dtype: DType) -> str | None:
    """The x86 instruction, where it takes a mask: LLVM would merge a comparison and two choices into worse code."""
    bits = dtype.bits * dtype.lanes
    if b.target.architecture != "x86_64" or not b.target.supports("avx512vl") or bits > b.target.vector_bits:
        return None
    return _X86.get((bits, dtype.bits))


def _call(b: FunctionBuilder, name: str, dtype: DType, operands: list[Any], immediate: str = "") -> Value:
    kind, last = register_type(dtype), f", {immediate}" if immediate else ""
    callee = b.module.declare(f"llvm.{name}", kind, f"{kind}, {kind}" + (", i32" if immediate else ""))
    return b.define(f"call {kind} {callee}({', '.join(f'{kind} {x.text}' for x in operands)}{last})", *operands)
