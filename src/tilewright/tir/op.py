"""Functions that build expressions: operators with dtype promotion and constant folding, and math calls.

Python numbers take the dtype of the other operand. Mixed dtypes are promoted: int to float, fewer bits to more,
scalar to vector. Building folds constants and drops neutral elements; everything more is `arith`'s work.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.errors import TypeMismatchError
from tilewright.support.dtype import DType
from tilewright.support.named import named
from tilewright.tir import expr as e
from tilewright.tir.expr import Expr


class NotScalar(TypeMismatchError):
    """A tensor stands where a number of an expression is wanted."""


def const(value: Any, dtype: str | None = None) -> Expr:
    """A constant; of a vector dtype a broadcast. Default dtype: bool, int32 or float32 by the Python type.

    Integers are wrapped into the range of the dtype, floats rounded to it.
    """
    if dtype is None:
        is_bool, is_int = isinstance(value, (bool, np.bool_)), isinstance(value, (int, np.integer))
        dtype = "bool" if is_bool else "int32" if is_int else "float32"
    dtype = DType(dtype)
    if dtype.lanes > 1:
        return e.Broadcast(const(value, dtype.element), dtype.lanes)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return e.FloatImm(dtype, float(np.asarray(value, np.float64).astype(dtype.numpy)))
    if dtype.is_bool:
        return e.IntImm(dtype, int(bool(value)))
    if dtype.code == "narrow" and "float" in str(dtype):
        raise TypeMismatchError(f"there are no constants of {dtype}, and no arithmetic: cast to float32 first")
    return e.IntImm(dtype, wrap(int(value), dtype))


def wrap(value: int, dtype: DType) -> int:
    """`value` reduced modulo 2**bits into the range of the integer type."""
    low, high = dtype.limits()
    return value if low <= value <= high else (value - low) % (high - low + 1) + low


def convert(value: Any, dtype: str | None = None) -> Expr:
    """`value` as an expression: expressions stay, numbers become constants, objects with `.var` that variable."""
    if isinstance(value, Expr):
        return value
    inner = getattr(value, "as_expr", None)
    if inner is not None:
        return inner()
    if isinstance(value, str):
        return e.StringImm(value)
    if isinstance(value, (bool, int, float, np.generic)):
        return const(value, dtype)
    if getattr(value, "broadcasts", False):
        raise NotScalar(f"{value!r} is no number; read an element of it, or write the whole expression on tensors")
    raise TypeMismatchError(f"cannot use {type(value).__name__} {value!r} in an expression")


def match(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Both operands as expressions of one dtype, after promotion."""
    if not isinstance(a, Expr) and not hasattr(a, "as_expr"):
        b = convert(b)
        return match(_number_like(a, b.dtype), b)
    a = convert(a)
    if not isinstance(b, Expr):
        b = convert(b) if hasattr(b, "as_expr") else _number_like(b, a.dtype)
    if a.dtype is b.dtype:
        return a, b
    lanes = max(a.dtype.lanes, b.dtype.lanes)
    a, b = broadcast(a, lanes), broadcast(b, lanes)
    return cast(_promoted(a.dtype, b.dtype), a), cast(_promoted(a.dtype, b.dtype), b)


def _number_like(value: Any, dtype: DType) -> Expr:
    if not isinstance(value, (bool, int, float, np.generic)):
        return convert(value)
    if isinstance(value, (float, np.floating)) and not dtype.is_float:
        return const(value, DType("float32").with_lanes(dtype.lanes))
    if dtype.is_bool and not isinstance(value, (bool, np.bool_)):
        return const(value, DType("int32").with_lanes(dtype.lanes))
    return const(value, dtype)


def _promoted(a: DType, b: DType) -> DType:
    def rank(t: DType) -> tuple[int, int, int]:
        return (2 if t.is_float else 0 if t.is_bool else 1, t.bits, 1 if t.code in ("int", "float") else 0)

    return max(a, b, key=rank)


def broadcast(value: Expr, lanes: int) -> Expr:
    """`value` with `lanes` lanes: itself if it has them already, a broadcast if it is scalar."""
    if value.dtype.lanes == lanes:
        return value
    if value.dtype.lanes != 1:
        raise TypeMismatchError(f"cannot broadcast {value.dtype} to {lanes} lanes")
    return e.Broadcast(value, lanes)


def cast(dtype: str, value: Any) -> Expr:
    """`value` converted to `dtype`; constants are converted now."""
    dtype, value = DType(dtype), convert(value)
    if dtype.lanes == 1 != value.dtype.lanes:
        dtype = dtype.with_lanes(value.dtype.lanes)
    value = broadcast(value, dtype.lanes)
    if value.dtype is dtype:
        return value
    if isinstance(value, e.Broadcast):
        return e.Broadcast(cast(dtype.element, value.value), dtype.lanes)
    number = as_const(value)
    if number is None or (isinstance(number, float) and not dtype.is_float and not math.isfinite(number)):
        return e.Cast(dtype, value)
    return const(bool(number) if dtype.is_bool else int(number) if dtype.is_int else number, dtype)


def as_const(value: Any) -> int | float | None:
    """The number if `value` is a scalar constant, else None."""
    return value.value if isinstance(value, (e.IntImm, e.FloatImm)) else None


def is_const(value: Expr, number: int) -> bool:
    """True if `value` is a constant (or a broadcast of one) equal to `number`."""
    if isinstance(value, e.Broadcast):
        value = value.value
    return isinstance(value, (e.IntImm, e.FloatImm)) and value.value == number


def never_nan(x: Expr) -> bool:
    """True if the float `x` is known to be no NaN: a constant, a converted integer, or what is made of such."""
    if isinstance(x, e.FloatImm):
        return x.value == x.value
    if isinstance(x, e.Broadcast):
        return never_nan(x.value)
    if isinstance(x, e.Cast):
        return not x.value.dtype.is_float or never_nan(x.value)
    return isinstance(x, (e.Min, e.Max)) and never_nan(x.a) and never_nan(x.b)


def _fold(cls: type[e.BinaryExpr], a: Expr, b: Expr) -> Expr | None:
    """The result if both operands are constants, or broadcasts of constants."""
    if isinstance(a, e.Broadcast) and isinstance(b, e.Broadcast):
        inner = _fold(cls, a.value, b.value)
        return None if inner is None else e.Broadcast(inner, a.lanes)
    x, y = as_const(a), as_const(b)
    if x is None or y is None:
        return None
    return fold_binary(cls, x, y, a.dtype)


def fold_binary(cls: type[e.BinaryExpr], x: Any, y: Any, dtype: DType) -> Expr | None:
    """The constant `cls(x, y)` of operands of `dtype`; None of floats that NumPy does not divide as processors do."""
    if issubclass(cls, e.CompareExpr):
        return const(_COMPARE[cls](x, y), "bool")
    if cls in (e.Div, e.Mod, e.FloorDiv, e.FloorMod):
        if dtype.is_float:
            return const(x / y, dtype) if cls is e.Div and dtype.bits == 64 and y != 0 else None
        if y == 0:
            return const(0, dtype)
    elif dtype.is_float and dtype.bits != 64 and cls in (e.Add, e.Sub, e.Mul):
        kind = dtype.numpy.type
        with np.errstate(all="ignore"):
            return const(float(_ARITHMETIC[cls](kind(x), kind(y))), dtype)
    return const(_ARITHMETIC[cls](x, y), dtype)


def _toward_zero(x: int, y: int) -> int:
    quotient = x // y
    return quotient + 1 if quotient < 0 and quotient * y != x else quotient


_ARITHMETIC: dict[type, Any] = {
    e.Add: lambda x, y: x + y,
    e.Sub: lambda x, y: x - y,
    e.Mul: lambda x, y: x * y,
    e.Div: lambda x, y: x / y if isinstance(x, float) else _toward_zero(x, y),
    e.Mod: lambda x, y: math.fmod(x, y) if isinstance(x, float) else x - y * _toward_zero(x, y),
    e.FloorDiv: lambda x, y: x // y,
    e.FloorMod: lambda x, y: x % y,
    e.Min: lambda x, y: x if x < y or x != x else y,
    e.Max: lambda x, y: x if x > y or x != x else y,
}  # fmt: skip
_COMPARE: dict[type, Any] = {
    e.EQ: lambda x, y: x == y,
    e.NE: lambda x, y: x != y,
    e.LT: lambda x, y: x < y,
    e.LE: lambda x, y: x <= y,
    e.GT: lambda x, y: x > y,
    e.GE: lambda x, y: x >= y,
    e.And: lambda x, y: bool(x and y),
    e.Or: lambda x, y: bool(x or y),
}


def _binary(cls: type[e.BinaryExpr], a: Any, b: Any) -> Expr:
    a, b = match(a, b)
    if a.dtype.is_narrow:  # kept as codes in a byte each, which have another order and other carries
        raise TypeMismatchError(f"there is no arithmetic and no order on {a.dtype}: cast to a wider type first")
    folded = _fold(cls, a, b)
    return folded if folded is not None else cls(a, b)


def _operator(cls: type[e.BinaryExpr], name: str, doc: str) -> Callable[[Any, Any], Expr]:
    """A function that builds `cls` with nothing to simplify but constants."""

    def build(a: Any, b: Any) -> Expr:
        return _binary(cls, a, b)

    return named(build, name, doc)


def add(a: Any, b: Any) -> Expr:
    """a + b; of bools whether either holds, as in NumPy."""
    a, b = match(a, b)
    if a.dtype.element.is_bool:
        return logical_or(a, b)
    if a.dtype.is_int:
        if is_const(a, 0):
            return b
        if is_const(b, 0):
            return a
    return _binary(e.Add, a, b)


def subtract(a: Any, b: Any) -> Expr:
    """a - b."""
    a, b = match(a, b)
    if a.dtype.is_int:
        if is_const(b, 0):
            return a
        if a is b:
            return const(0, a.dtype)
    return _binary(e.Sub, a, b)


def multiply(a: Any, b: Any) -> Expr:
    """a * b; of bools whether both hold."""
    a, b = match(a, b)
    if a.dtype.element.is_bool:
        return logical_and(a, b)
    if a.dtype.is_int:
        for x, y in ((a, b), (b, a)):
            if is_const(x, 1):
                return y
            if is_const(x, 0):
                return x
    return _binary(e.Mul, a, b)


def div(a: Any, b: Any) -> Expr:
    """Floating point division; integers are refused, because what is meant is not clear."""
    a, b = match(a, b)
    if not a.dtype.is_float:
        raise TypeMismatchError(f"/ of {a.dtype}: use // (rounds down) or tir.truncdiv (rounds towards zero)")
    return _binary(e.Div, a, b)


truncdiv = _operator(e.Div, "truncdiv", "Integer division that rounds towards zero.")
truncmod = _operator(e.Mod, "truncmod", "Remainder with the sign of the dividend (fmod for floats).")


def floordiv(a: Any, b: Any) -> Expr:
    """Integer division that rounds down."""
    a, b = match(a, b)
    if a.dtype.is_float:
        return floor(div(a, b))
    return a if is_const(b, 1) else _binary(e.FloorDiv, a, b)


def floormod(a: Any, b: Any) -> Expr:
    """Remainder with the sign of the divisor."""
    a, b = match(a, b)
    if a.dtype.is_float:
        return a - floor(div(a, b)) * b
    return const(0, a.dtype) if is_const(b, 1) else _binary(e.FloorMod, a, b)


def minimum(a: Any, b: Any) -> Expr:
    """The smaller of two values, NaN if one is (`te.min` reduces over an axis)."""
    a, b = match(a, b)
    return a if a is b else _binary(e.Min, a, b)


def maximum(a: Any, b: Any) -> Expr:
    """The larger of two values, NaN if one is (`te.max` reduces over an axis)."""
    a, b = match(a, b)
    return a if a is b else _binary(e.Max, a, b)


def negative(a: Any) -> Expr:
    """-a (for floats with the sign of zero flipped)."""
    a = convert(a)
    return const(-0.0 if a.dtype.is_float else 0, a.dtype) - a


eq = _operator(e.EQ, "eq", "a == b as an expression.")
ne: Callable[[Any, Any], Expr] = _operator(e.NE, "ne", "a != b as an expression.")
less = _operator(e.LT, "less", "a < b.")
less_equal = _operator(e.LE, "less_equal", "a <= b.")
greater = _operator(e.GT, "greater", "a > b.")
greater_equal = _operator(e.GE, "greater_equal", "a >= b.")


def logical_and(a: Any, b: Any) -> Expr:
    """a and b of bools."""
    a, b = match(a, b)
    for x, y in ((a, b), (b, a)):
        if is_const(x, 1):
            return y
        if is_const(x, 0):
            return x
    return _binary(e.And, a, b)


def logical_or(a: Any, b: Any) -> Expr:
    """a or b of bools."""
    a, b = match(a, b)
    for x, y in ((a, b), (b, a)):
        if is_const(x, 0):
            return y
        if is_const(x, 1):
            return x
    return _binary(e.Or, a, b)


def logical_not(a: Any) -> Expr:
    """not a of a bool."""
    a = convert(a)
    if isinstance(a, e.IntImm):
        return const(not a.value, "bool")
    return a.a if isinstance(a, e.Not) else e.Not(a)


def all(*conditions: Any) -> Expr:
    """The conjunction of the conditions; true if there are none."""
    result: Expr = const(True, "bool")
    for condition in conditions:
        result = logical_and(result, condition)
    return result


def any(*conditions: Any) -> Expr:
    """The disjunction of the conditions; false if there are none."""
    result: Expr = const(False, "bool")
    for condition in conditions:
        result = logical_or(result, condition)
    return result


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """`true_value` where `condition` else `false_value`; both are evaluated."""
    condition = convert(condition)
    true_value, false_value = match(true_value, false_value)
    if isinstance(condition, e.IntImm):
        return true_value if condition.value else false_value
    if true_value is false_value:
        return true_value
    lanes = max(condition.dtype.lanes, true_value.dtype.lanes)
    return e.Select(condition, broadcast(true_value, lanes), broadcast(false_value, lanes))


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """`true_value` if `condition` else `false_value`; only the side taken is evaluated (use it to guard a load)."""
    condition = convert(condition)
    true_value, false_value = match(true_value, false_value)
    if isinstance(condition, e.IntImm):
        return true_value if condition.value else false_value
    if condition.dtype.lanes > 1:
        raise TypeMismatchError("if_then_else takes a scalar condition; use select for vectors")
    return e.Call(true_value.dtype, "if_then_else", (condition, true_value, false_value))


def likely(condition: Any) -> Expr:
    """A hint that `condition` is nearly always true (the guard of a split that does not divide)."""
    condition = convert(condition)
    return condition if isinstance(condition, e.IntImm) else e.Call(condition.dtype, "likely", (condition,))


def reinterpret(dtype: str, value: Any) -> Expr:
    """The bits of `value` as `dtype`, of the same size."""
    value = convert(value)
    return e.Call(DType(dtype).with_lanes(value.dtype.lanes), "reinterpret", (value,))


def call_intrin(dtype: str, name: str, *args: Any) -> Expr:
    """A call of the intrinsic `name` (see `tir/intrinsics.py`)."""
    return e.Call(dtype, name, tuple(convert(a) for a in args))


def call_extern(dtype: str, name: str, *args: Any) -> Expr:
    """A call of the C function `name`."""
    return e.Call(dtype, "call_extern", (e.StringImm(name), *(convert(a) for a in args)))


def call_packed(name: str, *args: Any) -> Expr:
    """A call, for its effect, of the Python function registered as `name` (`tilewright.runtime.packed.register_func`).

    Buffers become arrays that share their memory; numbers and scalar expressions become ints and floats.
    """
    return e.Call("int32", "call_packed", (e.StringImm(name), *map(_packed, args)))


def _packed(value: Any) -> Expr:
    if hasattr(value, "access_ptr"):
        return e.Call("handle", "packed_array", (value.access_ptr(), e.StringImm(str(value.dtype)), *value.shape))
    return convert(value)


def _math(name: str, doc: str) -> Callable[[Any], Expr]:
    def build(x: Any) -> Expr:
        x = convert(x)
        if not x.dtype.is_float:
            x = cast(DType("float32").with_lanes(x.dtype.lanes), x)
        return e.Call(x.dtype, name, (x,))

    return named(build, name, doc)


def _rounding(name: str, doc: str) -> Callable[[Any], Expr]:
    of_float = _math(name, doc)

    def build(x: Any) -> Expr:
        x = convert(x)
        return of_float(x) if x.dtype.is_float else x

    return named(build, name, doc)


exp = _math("exp", "e to the power of x.")
expm1 = _math("expm1", "exp(x) - 1, exact to the last places near 0 too.")
log = _math("log", "Natural logarithm.")
log1p = _math("log1p", "log(1 + x), exact to the last places near 0 too.")
sqrt = _math("sqrt", "Square root, correctly rounded.")
rsqrt = _math("rsqrt", "1 / sqrt(x).")
tanh = _math("tanh", "Hyperbolic tangent.")
sigmoid = _math("sigmoid", "1 / (1 + exp(-x)).")
erf = _math("erf", "The error function.")
erfc = _math("erfc", "1 - erf(x), exact where it vanishes.")
silu = _math("silu", "x * sigmoid(x).")
mish = _math("mish", "x * tanh(log(1 + exp(x))).")
gelu = _math("gelu", "x times the normal distribution function.")
gelu_tanh = _math("gelu_tanh", "`gelu` in its approximation by tanh.")
sin = _math("sin", "Sine of radians.")
cos = _math("cos", "Cosine of radians.")
tan = _math("tan", "Tangent of radians.")
floor = _rounding("floor", "Largest integer not above x, as a float; an integer is itself.")
ceil = _rounding("ceil", "Smallest integer not below x, as a float; an integer is itself.")
trunc = _rounding("trunc", "x without its fraction, as a float; an integer is itself.")
round = _rounding("round", "Nearest integer, ties to even, as a float; an integer is itself.")


def isnan(x: Any) -> Expr:
    """True where x is not a number, which an integer always is."""
    x = convert(x)
    return e.NE(x, x) if x.dtype.is_float else const(False, DType("bool").with_lanes(x.dtype.lanes))


def power(x: Any, y: Any) -> Expr:
    """x to the power of y, of floats."""
    x, y = match(x, y)
    return e.Call(x.dtype, "pow", (x, y))


def abs(x: Any) -> Expr:
    """|x|."""
    x = convert(x)
    if x.dtype.is_float:
        return e.Call(x.dtype, "fabs", (x,))
    return x if x.dtype.code == "uint" else maximum(x, const(0, x.dtype) - x)
