"""LLVM code for constants, arithmetic, comparisons, logic, selection and conversions.

Floating point operations carry the flag `contract` alone: a product feeding a sum becomes one fused multiply-add where
the target has it, and nothing else is reordered, so results do not depend on optimizer whims. 16-bit floats are widened
to float32 around each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.division import divide, divide_down
from tilewright.codegen.llvm.dot_product import product_of_shorts
from tilewright.codegen.llvm.extremum import extremum
from tilewright.codegen.llvm.half import narrow_half, widen_half
from tilewright.codegen.llvm.saturation import saturated
from tilewright.codegen.llvm.types import (
    float_constant,
    integer_constant,
    is_small_float,
    register_type,
    splat,
    vector_constant,
)
from tilewright.errors import InternalError
from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir.expr import IntImm

FLOAT32 = DType("float32")


# --------------------------------------------------------------------------------------------------- constants
def int_imm(_: FunctionBuilder, expr: e.IntImm) -> Value:
    """An integer or bool constant."""
    return Value(integer_constant(expr.dtype, expr.value))


def float_imm(_: FunctionBuilder, expr: e.FloatImm) -> Value:
    """A floating point constant."""
    return Value(float_constant(expr.dtype, expr.value))


# -------------------------------------------------------------------------------------------------- arithmetic
def _binary(float_op: str, signed_op: str, unsigned_op: str | None = None) -> Callable[[FunctionBuilder, Any], Value]:
    def emit(b: FunctionBuilder, expr: e.BinaryExpr) -> Value:
        dtype = expr.dtype
        if is_small_float(dtype):
            return _through_float32(b, expr)
        x, y = b.value(expr.a), b.value(expr.b)
        op = float_op if dtype.is_float else unsigned_op if unsigned_op and dtype.code != "int" else signed_op
        return b.define(f"{op} {register_type(dtype)} {x.text}, {y.text}", x, y)

    return emit


def _through_float32(b: FunctionBuilder, expr: e.BinaryExpr) -> Value:
    wide = FLOAT32.with_lanes(expr.a.dtype.lanes)
    result = b.value(type(expr)(e.Cast(wide, expr.a), e.Cast(wide, expr.b)))
    return result if expr.dtype.is_bool else convert(b, result, wide, expr.dtype)


add = _binary("fadd contract", "add")
sub = _binary("fsub contract", "sub")
_product = _binary("fmul contract", "mul")


def mul(b: FunctionBuilder, expr: e.Mul) -> Value:
    """A product; of 16-bit integers in 32 bits by an instruction for these."""
    return product_of_shorts(b, expr) or _product(b, expr)


def _division(quotient: bool) -> Callable[[FunctionBuilder, Any], Value]:
    return lambda b, expr: _through_float32(b, expr) if is_small_float(expr.dtype) else divide(b, expr, quotient)


div = _division(quotient=True)
mod = _division(quotient=False)


def floordiv(b: FunctionBuilder, expr: e.FloorDiv) -> Value:
    """Division rounding down."""
    return divide_down(b, expr, quotient=True)


def floormod(b: FunctionBuilder, expr: e.FloorMod) -> Value:
    """Remainder with the sign of the divisor."""
    return divide_down(b, expr, quotient=False)


def _extremum(name: str, *tests: str) -> Callable[[FunctionBuilder, Any], Value]:
    plain = extremum(name, *tests)
    return lambda b, expr: _through_float32(b, expr) if is_small_float(expr.dtype) else plain(b, expr)


minimum = _extremum("min", "fcmp olt", "icmp slt", "icmp ult")
maximum = _extremum("max", "fcmp ogt", "icmp sgt", "icmp ugt")


# ------------------------------------------------------------------------------------------ comparison and logic
def _comparison(float_test: str, signed_test: str, unsigned_test: str) -> Callable[[FunctionBuilder, Any], Value]:
    def emit(b: FunctionBuilder, expr: e.CompareExpr) -> Value:
        dtype = expr.a.dtype
        if is_small_float(dtype):
            return _through_float32(b, expr)
        x, y = b.value(expr.a), b.value(expr.b)
        test = float_test if dtype.is_float else signed_test if dtype.code == "int" else unsigned_test
        return b.define(f"{test} {register_type(dtype)} {x.text}, {y.text}", x, y)

    return emit


equal = _comparison("fcmp oeq", "icmp eq", "icmp eq")
not_equal = _comparison("fcmp une", "icmp ne", "icmp ne")
less = _comparison("fcmp olt", "icmp slt", "icmp ult")
less_equal = _comparison("fcmp ole", "icmp sle", "icmp ule")
greater = _comparison("fcmp ogt", "icmp sgt", "icmp ugt")
greater_equal = _comparison("fcmp oge", "icmp sge", "icmp uge")
logical_and = _binary("and", "and")
logical_or = _binary("or", "or")


def logical_not(b: FunctionBuilder, expr: e.Not) -> Value:
    """The negation of a bool."""
    x = b.value(expr.a)
    return b.define(f"xor {register_type(expr.dtype)} {x.text}, {splat(expr.dtype, 'true')}", x)


def select(b: FunctionBuilder, expr: e.Select) -> Value:
    """A choice per lane (or of whole vectors, for a scalar condition)."""
    c, x, y = b.value(expr.condition), b.value(expr.true_value), b.value(expr.false_value)
    kind = register_type(expr.dtype)
    return b.define(f"select {register_type(expr.condition.dtype)} {c.text}, {kind} {x.text}, {kind} {y.text}", c, x, y)


def let(b: FunctionBuilder, expr: e.Let) -> Value:
    """The body, with the variable standing for its value."""
    b.bind(expr.var, b.value(expr.value))
    return b.value(expr.body)


def variable(b: FunctionBuilder, expr: e.Var) -> Value:
    """A loop variable, counted in the type of indices, in its own type."""
    wide = b.wide_variables.get(expr)
    if wide is None:
        raise InternalError(f"variable {expr.name!r} is used outside the statement that defines it")
    kind = register_type(expr.dtype)
    if kind == b.index:
        return wide
    change = "sext" if expr.dtype.bits > int(b.index[1:]) else "trunc"
    return b.define(f"{change} {b.index} {wide.text} to {kind}", wide)


# -------------------------------------------------------------------------------------------------- conversions
def cast(b: FunctionBuilder, expr: e.Cast) -> Value:
    """A conversion between element types; x86 rounds to even numbers as it converts."""
    value, byte = expr.value, saturated(b, expr)
    if byte is not None:
        return byte
    rounded = isinstance(value, e.Call) and value.op == "round" and value.dtype.element == "float32"
    if rounded and expr.dtype.element == "int32" and b.target.architecture == "x86_64":
        assert isinstance(value, e.Call)
        x, kinds = b.value(value.args[0]), (register_type(expr.dtype), register_type(value.dtype))
        lanes = f"v{expr.dtype.lanes}" if expr.dtype.lanes > 1 else ""
        callee = b.module.declare(f"llvm.lrint.{lanes}i32.{lanes}f32", *kinds)
        return b.define(f"call {kinds[0]} {callee}({kinds[1]} {x.text})", x)
    return convert(b, b.value(expr.value), expr.value.dtype, expr.dtype)


def convert(b: FunctionBuilder, value: Value, source: DType, target: DType) -> Value:
    """`value` of type `source` as `target`, of the same lane count."""
    if source is target:
        return value
    if is_small_float(source):
        wide = FLOAT32.with_lanes(source.lanes)
        return convert(b, _widen_small(b, value, source), wide, target)
    if is_small_float(target):
        wide = FLOAT32.with_lanes(source.lanes)
        return _narrow_small(b, convert(b, value, source, wide), target)
    kind, result = register_type(source), register_type(target)
    if target.is_bool:
        zero = splat(source, "0.0" if source.is_float else "0")
        return b.define(f"{'fcmp une' if source.is_float else 'icmp ne'} {kind} {value.text}, {zero}", value)
    if source.is_float and target.code == "uint":
        return _to_unsigned(b, value, source, target)
    if source.is_float or target.is_float:
        op = _float_conversion(source, target)
    elif source.bits == target.bits:
        return value
    elif source.bits > target.bits:
        op = "trunc"
    else:
        op = "sext" if source.code == "int" else "zext"
    return b.define(f"{op} {kind} {value.text} to {result}", value)


def _float_conversion(source: DType, target: DType) -> str:
    if source.is_float and target.is_float:
        return "fpext" if target.bits > source.bits else "fptrunc"
    if source.is_float:
        return "fptosi"
    return "sitofp" if source.code == "int" else "uitofp"


def _to_unsigned(b: FunctionBuilder, value: Value, source: DType, target: DType) -> Value:
    """Floats as unsigned integers by signed conversion, whose result beyond its range is one on all processors of a
    kind: of up to 16 bits by int32, as of signed ones; of more the upper half less its start. PyTorch does the same."""
    wide = DType("int32" if target.bits < 32 else f"int{target.bits}").with_lanes(source.lanes)
    low = convert(b, value, source, wide)
    if target.bits < 32:
        return convert(b, low, wide, target)
    kind, ints = register_type(source), register_type(wide)
    start = splat(source, float_constant(source, 2.0 ** (target.bits - 1)))
    rest = b.define(f"fsub {kind} {value.text}, {start}", value)
    high = convert(b, rest, source, wide)
    flipped = b.define(f"xor {ints} {high.text}, {splat(wide, str(-(1 << (target.bits - 1))))}", high)
    upper = b.define(f"fcmp oge {kind} {value.text}, {start}", value)
    bools = register_type(DType("bool").with_lanes(source.lanes))
    return b.define(f"select {bools} {upper.text}, {ints} {flipped.text}, {ints} {low.text}", upper, flipped, low)


def _widen_small(b: FunctionBuilder, value: Value, source: DType) -> Value:
    """The float32 value of 16-bit float patterns."""
    n = source.lanes
    patterns, floats = register_type(DType("int16").with_lanes(n)), register_type(FLOAT32.with_lanes(n))
    if source.code == "bfloat":
        ints = register_type(DType("int32").with_lanes(n))
        bits = b.define(f"zext {patterns} {value.text} to {ints}", value)
        high = b.define(f"shl {ints} {bits.text}, {splat(DType('int32').with_lanes(n), '16')}", bits)
        return b.define(f"bitcast {ints} {high.text} to {floats}", high)
    if not b.target.converts_half:
        return widen_half(b, value, n)
    halves = "half" if n == 1 else f"<{n} x half>"
    cast_ = b.define(f"bitcast {patterns} {value.text} to {halves}", value)
    return b.define(f"fpext {halves} {cast_.text} to {floats}", cast_)


def _narrow_small(b: FunctionBuilder, value: Value, target: DType) -> Value:
    """Float32 values rounded to nearest even as 16-bit float patterns."""
    n = target.lanes
    patterns, floats = register_type(DType("int16").with_lanes(n)), register_type(FLOAT32.with_lanes(n))
    if target.code == "float":
        if not b.target.converts_half:
            return narrow_half(b, value, n)
        halves = "half" if n == 1 else f"<{n} x half>"
        rounded = b.define(f"fptrunc {floats} {value.text} to {halves}", value)
        return b.define(f"bitcast {halves} {rounded.text} to {patterns}", rounded)
    word = DType("int32").with_lanes(n)
    ints, bools = register_type(word), register_type(DType("bool").with_lanes(n))
    bits = b.define(f"bitcast {floats} {value.text} to {ints}", value)
    shifted = b.define(f"lshr {ints} {bits.text}, {splat(word, '16')}", bits)
    odd = b.define(f"and {ints} {shifted.text}, {splat(word, '1')}", shifted)
    bias = b.define(f"add {ints} {odd.text}, {splat(word, '32767')}", odd)
    biased = b.define(f"add {ints} {bits.text}, {bias.text}", bits, bias)
    rounded = b.define(f"lshr {ints} {biased.text}, {splat(word, '16')}", biased)
    quiet = b.define(f"or {ints} {shifted.text}, {splat(word, '64')}", shifted)
    nan = b.define(f"fcmp uno {floats} {value.text}, {value.text}", value)
    chosen = b.define(f"select {bools} {nan.text}, {ints} {quiet.text}, {ints} {rounded.text}", nan, quiet, rounded)
    return b.define(f"trunc {ints} {chosen.text} to {patterns}", chosen)


# ------------------------------------------------------------------------------------------------------ vectors
def broadcast(b: FunctionBuilder, expr: e.Broadcast) -> Value:
    """A scalar in every lane; a constant stays one."""
    return broadcast_value(b, b.value(expr.value), expr.dtype)


def broadcast_value(b: FunctionBuilder, x: Value, dtype: DType) -> Value:
    """The scalar `x` in every lane of vector type `dtype`."""
    if not x.text.startswith("%"):
        return Value(splat(dtype, x.text))
    kind, element = register_type(dtype), register_type(dtype.element)
    first = b.defined_once(f"insertelement {kind} poison, {element} {x.text}, i64 0", x)
    return b.define(f"shufflevector {kind} {first.text}, {kind} poison, <{dtype.lanes} x i32> zeroinitializer", first)


def ramp(b: FunctionBuilder, expr: e.Ramp) -> Value:
    """base + stride * (0, 1, …) as a vector of integers (loads and stores take ramps as addresses instead)."""
    dtype, lanes = expr.dtype, expr.lanes
    kind, element = register_type(dtype), register_type(dtype.element)
    base = broadcast_value(b, b.value(expr.base), dtype)
    if isinstance(expr.stride, IntImm):
        steps = vector_constant(element, (str(expr.stride.value * i) for i in range(lanes)))
        return b.define(f"add {kind} {base.text}, {steps}", base)
    stride = broadcast_value(b, b.value(expr.stride), dtype)
    counts = vector_constant(element, map(str, range(lanes)))
    steps_value = b.define(f"mul {kind} {stride.text}, {counts}", stride)
    return b.define(f"add {kind} {base.text}, {steps_value.text}", base, steps_value)


def shuffle(b: FunctionBuilder, expr: e.Shuffle) -> Value:
    """Lanes picked from concatenated vectors."""
    parts = [b.value(v) for v in expr.vectors]
    lanes = [v.dtype.lanes for v in expr.vectors]
    positions = [(part, lane) for part, count in enumerate(lanes) for lane in range(count)]
    element = register_type(expr.dtype.element)
    if len(expr.indices) > 1 and len(parts) <= 2 and len(set(lanes)) == 1 and lanes[0] > 1:
        kind = register_type(expr.vectors[0].dtype)
        second = parts[1].text if len(parts) == 2 else "poison"
        return permute(b, parts[0], second, kind, expr.indices, *parts)
    picked = []
    for index in expr.indices:
        part, lane = positions[index]
        kind = register_type(expr.vectors[part].dtype)
        picked.append(
            parts[part]
            if lanes[part] == 1
            else b.defined_once(f"extractelement {kind} {parts[part].text}, i64 {lane}", parts[part])
        )
    return picked[0] if len(picked) == 1 else gather_lanes(b, picked, register_type(expr.dtype), element)


def permute(
    b: FunctionBuilder, first: Value, second: str, kind: str, picks: Sequence[int | str], *operands: Value
) -> Value:
    """Lanes `picks` of `first` and `second`, both vectors of LLVM type `kind`; `operands` are those that are values."""
    mask = vector_constant("i32", map(str, picks))
    return b.define(f"shufflevector {kind} {first.text}, {kind} {second}, <{len(picks)} x i32> {mask}", *operands)


def gather_lanes(b: FunctionBuilder, lanes: list[Value], kind: str, element: str) -> Value:
    """A vector of LLVM type `kind` made of scalar values."""
    vector = Value("poison")
    for i, lane in enumerate(lanes):
        vector = b.define(f"insertelement {kind} {vector.text}, {element} {lane.text}, i64 {i}", vector, lane)
    return vector
