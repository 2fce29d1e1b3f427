"""Math of loop expressions that classic programs call by name: `te.asinh(x)`, `tir.popcount(n)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import tir
from tilewright.errors import UnsupportedError
from tilewright.support.named import named
from tilewright.tir import op
from tilewright.tir.intrinsics import INTRINSICS


def _unary(name: str) -> Callable[..., Any]:
    def build(x: Any, span: Any = None) -> Any:
        x = op.convert(x)
        return tir.Call(x.dtype, name, (x if x.dtype.is_float else op.cast("float32", x),))

    return named(build, name, f"{name} of a float.")


def _binary(name: str) -> Callable[..., Any]:
    def build(x: Any, y: Any, span: Any = None) -> Any:
        x, y = op.match(x, y)
        return tir.Call(x.dtype, name, (x, y))

    return named(build, name, f"{name} of two floats.")


acos, acosh, asin, asinh, atan, atanh = map(_unary, ("acos", "acosh", "asin", "asinh", "atan", "atanh"))
cosh, sinh, exp2, log2, log10, log1p = map(_unary, ("cosh", "sinh", "exp2", "log2", "log10", "log1p"))
atan2, copysign, fmod, hypot = map(_binary, ("atan2", "copysign", "fmod", "hypot"))


def exp10(x: Any, span: Any = None) -> Any:
    """10 to the power of x."""
    x = op.convert(x)
    return op.power(op.const(10.0, x.dtype), x)


def nearbyint(x: Any, span: Any = None) -> Any:
    """The nearest integer, ties to even, as a float."""
    return op.round(x)


def nextafter(x: Any, y: Any, span: Any = None) -> Any:
    """The neighbour of `x` towards `y` among the numbers of its type. Raises `UnsupportedError` but for floats of
    32 and 64 bits."""
    x, y = op.match(x, y)
    integer = _integer_of(x, "nextafter")
    bits = op.reinterpret(integer, x)
    away = tir.select(y > x, x >= 0, x < 0)  # larger in magnitude
    moved = op.reinterpret(str(x.dtype), bits + tir.select(away, op.const(1, integer), op.const(-1, integer)))
    smallest = op.reinterpret(str(x.dtype), op.const(1, integer))
    from_zero = tir.select(y > 0, smallest, -smallest)
    ordered = op.logical_and(tir.eq(x, x), tir.eq(y, y))
    result = tir.select(tir.eq(x, y), y, tir.select(tir.eq(x, 0), from_zero, moved))
    return tir.select(ordered, result, x + y)


def ldexp(x: Any, exponent: Any, span: Any = None) -> Any:
    """`x * 2**exponent` of an integer exponent, rounded once."""
    x, n = op.convert(x), op.cast("int32", op.convert(exponent))
    integer = _integer_of(x, "ldexp")
    digits, bias = (23, 127) if integer == "int32" else (52, 1023)

    def power(k: Any) -> Any:
        return op.reinterpret(str(x.dtype), op.cast(integer, k + bias) << op.const(digits, integer))

    def limited(k: Any, least: int) -> Any:
        return op.minimum(op.maximum(k, op.const(least, "int32")), op.const(bias, "int32"))

    first = limited(n, 1 - bias + digits)  # no subnormal on the way, which would round twice
    second = limited(n - first, 1 - bias)
    return x * power(first) * power(second) * power(limited(n - first - second, 1 - bias))


def _integer_of(x: Any, name: str) -> str:
    """The integer type as wide as the float `x`."""
    if str(x.dtype) not in ("float32", "float64"):
        raise UnsupportedError(f"tir.{name} takes float32 and float64, not {x.dtype}; cast it first")
    return f"int{x.dtype.bits}"


def popcount(x: Any, span: Any = None) -> Any:
    """The number of set bits of an integer."""
    x = op.convert(x)
    return tir.Call(x.dtype, "popcount", (x,))


def clz(x: Any, span: Any = None) -> Any:
    """The number of bits above the highest set one, as an int32."""
    x = op.convert(x)
    return op.cast("int32", tir.Call(x.dtype, "clz", (x,)))


def call_pure_extern(dtype: str, func_name: str, *args: Any, span: Any = None) -> Any:
    """A C function whose value depends on its arguments only."""
    return op.call_extern(dtype, func_name, *args)


def call_llvm_intrin(dtype: str, name: str, *args: Any, span: Any = None) -> Any:
    """An intrinsic of LLVM by name, of those that this package has itself, such as "llvm.sqrt".

    Raises `UnsupportedError` for others.
    """
    short = name.removeprefix("llvm.").split(".")[0]
    own = {"ctpop": "popcount", "ctlz": "clz", "pow": "pow", "fma": "fma", "fabs": "fabs", "rint": "round"}.get(
        short, short
    )
    if own not in op_names():
        raise UnsupportedError(f"call_llvm_intrin({name!r}): write it by tir's own functions; LLVM's are not reachable")
    values = [op.convert(arg) for arg in args[1:]]  # the first one says how many of them choose the overload
    return tir.Call(dtype, own, tuple(values[: op_names()[own]]))


call_llvm_pure_intrin = call_llvm_intrin


def call_intrin(dtype: str, func_name: Any, *args: Any, span: Any = None) -> Any:
    """A call of an intrinsic by name, with or without the classic "tir." before it. Unknown ones are refused
    when code is made."""
    name = str(getattr(func_name, "name", func_name)).removeprefix("tir.")
    return op.call_intrin(dtype, _RENAMED.get(name, name), *args)


#: Classic intrinsics by the names that they have here.
_RENAMED = {"nearbyint": "round", "tvm_storage_sync": "storage_sync"}


def op_names() -> dict[str, int]:
    """The pure functions of numbers by name, with how many they take."""
    return {name: entry.arity for name, entry in INTRINSICS.items() if entry.pure and entry.arity}
