"""Replace math calls by polynomials, and hints by what they hint at: what is left, codegen emits as it is."""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.tir import math as tir_math
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, Shuffle
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.folding import FoldingRewriter

_POLYNOMIALS: dict[str, Callable[..., Expr]] = {
    name: getattr(tir_math, f"lower_{name}")
    for name in (
        "exp", "exp2_approx", "expm1", "log", "log1p", "log2", "log10", "pow", "erf", "erfc", "tanh", "sigmoid", "silu",
        "mish", "gelu", "gelu_tanh", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
        "atanh",
    )
}  # fmt: skip
_NATIVE = frozenset(
    {"sqrt", "floor", "ceil", "trunc", "round", "fabs", "fma"}
)  # codegen has these for float32, float64


def lower_intrinsics(func: PrimFunc, native: frozenset[str] = frozenset()) -> PrimFunc:
    """`func` with no `likely` and no math call that codegen does not know; `native` names further ones it knows.

    float32: polynomials of `tir/math`. float16 and bfloat16: through float32. float64: the C library, lane by lane.

        y[i] = exp(x[i])    =>    y[i] = horner(…)
    """
    return _Lowering(native)(func)


class _Lowering(FoldingRewriter):
    def __init__(self, native: frozenset[str]) -> None:
        super().__init__()
        self.native = native

    def visit_Call(self, x: Call) -> Expr:
        """The lowered call."""
        made = self.rebuild(x)
        return _lower(made) if isinstance(made, Call) and made.op not in self.native else made


def _lower(call: Call) -> Expr:
    name = call.op
    if name == "likely":
        return call.args[0]
    if name == "rsqrt":
        return _lower_math("sqrt", call.dtype, call.args, lambda x: op.const(1.0, x.dtype) / op.sqrt(x))
    if name in _POLYNOMIALS:
        return _lower_math(name, call.dtype, call.args, _POLYNOMIALS[name])
    if name in _NATIVE and call.dtype.is_float and call.dtype.bits == 16:
        return _lower_math(name, call.dtype, call.args, lambda *args: Call(args[0].dtype, name, args))
    return call


def _lower_math(name: str, dtype: str, args: tuple[Expr, ...], single: Callable[..., Expr]) -> Expr:
    """`name(args)`, where `single` builds it for float32."""
    if args[0].dtype.bits == 16:
        wide = [op.cast("float32", a) for a in args]
        return op.cast(dtype, single(*wide))
    if args[0].dtype.bits == 64:
        return _double(name, args)
    return single(*args)


def _double(name: str, args: tuple[Expr, ...]) -> Expr:
    """A float64 function: of the C library for scalars, and for each lane of vectors."""
    if name == "sqrt":
        return op.const(1.0, args[0].dtype) / op.sqrt(args[0])
    lanes = args[0].dtype.lanes
    if lanes > 1:
        calls = [_double(name, tuple([Shuffle([a], [i]) for a in args])) for i in range(lanes)]
        return Shuffle(calls, range(lanes))
    made = _COMPOSED.get(name)
    return made(*args) if made else op.call_extern("float64", name, *args)


def _exp(x: Expr) -> Expr:
    return op.call_extern("float64", "exp", x)


def _times_sigmoid(x: Expr, y: Expr) -> Expr:
    """x * sigmoid(y), by the exponential of -|y|, which does not overflow; as a square, whose root is no denormal."""
    root, one = _exp(op.abs(y) * op.const(-0.5, y.dtype)), op.const(1.0, y.dtype)
    return op.select(op.less(y, op.const(0.0, y.dtype)), x * root * root, x) / (one + root * root)


def _mish(x: Expr) -> Expr:
    root, two = _exp(op.minimum(x, op.const(40.0, x.dtype)) * op.const(0.5, x.dtype)), op.const(2.0, x.dtype)
    power = root * root
    below = x * root * root * (power + two) / (power * (power + two) + two)
    return op.select(op.greater(x, op.const(40.0, x.dtype)), x, below)


def _gelu(x: Expr) -> Expr:
    return x * op.const(0.5, x.dtype) * op.call_extern("float64", "erfc", x * op.const(-(0.5**0.5), x.dtype))


def _gelu_tanh(x: Expr) -> Expr:
    cubic = x + op.const(0.044715, x.dtype) * x * x * x
    return _times_sigmoid(x, cubic * op.const(2 * (2 / math.pi) ** 0.5, x.dtype))


#: Functions of float64 that the C library has not, of those that it has.
_COMPOSED: dict[str, Callable[[Expr], Expr]] = {
    "sigmoid": lambda x: _times_sigmoid(op.const(1.0, x.dtype), x),
    "silu": lambda x: _times_sigmoid(x, x),
    "mish": _mish,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}
