"""Element-wise operators of one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright import te, tir
from tilewright.support.dtype import DType
from tilewright.support.named import named
from tilewright.te import Tensor
from tilewright.topi import narrow, tag


def unary(x: Tensor, function: Callable[[Any], Any], name: str) -> Tensor:
    """`function` applied to every element of `x`."""
    return te.compute(x.shape, lambda *i: function(x(*i)), name=f"T_{name}", tag=tag.ELEMWISE)


def in_float32(function: Callable[..., Any], *values: Any) -> Any:
    """`function(*values)` of several steps, of 16-bit floats computed in float32 and rounded once."""
    dtype = values[0].dtype
    if not (dtype.is_float and dtype.bits == 16):
        return function(*values)
    return function(*[value.astype("float32") for value in values]).astype(dtype)


def _named(function: Callable[[Any], Any], name: str, doc: str) -> Callable[[Tensor], Tensor]:
    def build(x: Tensor) -> Tensor:
        return unary(x, function, name)

    return named(build, name, doc)


negative = _named(tir.negative, "negative", "-x.")
abs = _named(tir.abs, "abs", "|x|.")
exp = _named(tir.exp, "exp", "e to the power of x.")
log = _named(tir.log, "log", "Natural logarithm.")
sqrt = _named(tir.sqrt, "sqrt", "Square root.")
rsqrt = _named(
    lambda x: in_float32(lambda v: tir.const(1, v.dtype) / tir.sqrt(v), x), "rsqrt", "1 / sqrt(x), to full precision."
)
tanh = _named(tir.tanh, "tanh", "Hyperbolic tangent.")
sigmoid = _named(tir.sigmoid, "sigmoid", "1 / (1 + exp(-x)).")
erf = _named(tir.erf, "erf", "The error function.")
sin = _named(tir.sin, "sin", "Sine.")
cos = _named(tir.cos, "cos", "Cosine.")
tan = _named(tir.tan, "tan", "Tangent.")
floor = _named(tir.floor, "floor", "Largest integer not above x.")
ceil = _named(tir.ceil, "ceil", "Smallest integer not below x.")
trunc = _named(tir.trunc, "trunc", "x without its fraction.")
round = _named(tir.round, "round", "Nearest integer, ties to even.")
logical_not = _named(tir.logical_not, "logical_not", "not x, of bools.")
isnan = _named(tir.isnan, "isnan", "True where x is not a number.")


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 by the sign of x, 0 of a zero with either sign; a NaN stays."""

    def body(v: Any) -> Any:
        zero, one = tir.const(0, x.dtype), tir.const(1, x.dtype)
        positive = tir.select(v > zero, one, tir.abs(v) if x.dtype.is_float else zero)
        return positive if x.dtype.code == "uint" else tir.select(v < zero, zero - one, positive)

    return unary(x, body, "sign")


def isinf(x: Tensor) -> Tensor:
    """True where x is infinite."""
    return unary(x, lambda v: tir.eq(tir.abs(v), tir.const(float("inf"), x.dtype)), "isinf")


def isfinite(x: Tensor) -> Tensor:
    """True where x is neither infinite nor NaN."""
    return unary(x, lambda v: tir.less(tir.abs(v), tir.const(float("inf"), x.dtype)), "isfinite")


def identity(x: Tensor) -> Tensor:
    """A copy of x."""
    return unary(x, lambda v: v, "identity")


def bitwise_not(x: Tensor) -> Tensor:
    """All bits of an integer flipped."""
    return unary(x, lambda v: tir.const(-1, x.dtype) - v, "bitwise_not")


def clip(x: Tensor, a_min: float, a_max: float) -> Tensor:
    """x limited to [a_min, a_max]; a NaN stays."""

    def body(v: Any) -> Any:
        low, high = bounds(x.dtype, a_min, a_max)
        return tir.minimum(tir.maximum(v, tir.const(low, x.dtype)), tir.const(high, x.dtype))

    return unary(x, body, "clip")


def bounds(dtype: Any, a_min: float, a_max: float) -> tuple[float, float]:
    """Clip limits brought into the range of an integer `dtype`; floats as they are."""
    if not dtype.is_int:
        return a_min, a_max
    low, high = dtype.limits()
    return int(max(low, min(high, a_min))), int(max(low, min(high, a_max)))


def cast(x: Tensor, dtype: str) -> Tensor:
    """x converted to `dtype`; float to int rounds towards zero, to bool means != 0. Narrow types: `topi.narrow`."""
    target = DType(dtype)
    if x.dtype == target:
        return identity(x)
    if x.dtype.is_narrow:
        decoded = unary(x, narrow.decode(x.dtype), "decode")
        return cast(decoded, dtype) if decoded.dtype != target else decoded
    if target.is_narrow:
        return unary(x, narrow.encode(target), "cast")
    if dtype == "bool":
        return unary(x, lambda v: tir.ne(v, tir.const(0, x.dtype)), "cast")
    return unary(x, lambda v: v.astype(dtype), "cast")


def full(shape: Sequence[int], dtype: str, fill_value: Any) -> Tensor:
    """A tensor of `shape` filled with a number."""
    return te.compute(shape, lambda *_: tir.const(fill_value, dtype), name="T_full", tag=tag.ELEMWISE)


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of the type of `x` filled with a number; `x` is read (and the value dropped), so it stays an input."""
    value = tir.const(fill_value, x.dtype)
    return unary(x, lambda v: tir.Select(tir.ne(v, v), value, value), "full_like")


def full_from(shape: Sequence[int], value: Tensor) -> Tensor:
    """A tensor of `shape` filled with the scalar tensor `value`."""
    return te.compute(shape, lambda *_: value(*[0] * value.ndim), name="T_full", tag=tag.BROADCAST)


def arange(start: Any, count: int, step: float, dtype: str) -> Tensor:
    """start, start + step, … of `count` elements; the start may be a symbolic size."""

    def body(i: Any) -> Any:
        first = start.astype(dtype) if isinstance(start, tir.Expr) else tir.const(start, dtype)
        return first + i.astype(dtype) * tir.const(step, dtype)

    return te.compute((count,), body, name="T_arange", tag=tag.INJECTIVE)
