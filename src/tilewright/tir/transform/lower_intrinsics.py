"""Replace math calls by polynomials, and hints by what they hint at: what is left, codegen emits as it is."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.tir import math as tir_math
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, Shuffle
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.folding import FoldingRewriter

_POLYNOMIALS: dict[str, Callable[..., Expr]] = {
    "exp": tir_math.lower_exp,
    "expm1": tir_math.lower_expm1,
    "log": tir_math.lower_log,
    "log1p": tir_math.lower_log1p,
    "tanh": tir_math.lower_tanh,
    "sigmoid": tir_math.lower_sigmoid,
    "erf": tir_math.lower_erf,
    "pow": tir_math.lower_pow,
    "sin": tir_math.lower_sin,
    "cos": tir_math.lower_cos,
    "tan": tir_math.lower_tan,
}
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
        """What a call becomes."""
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
    if name == "sigmoid":
        x = args[0]
        return op.const(1.0, x.dtype) / (op.const(1.0, x.dtype) + op.call_extern("float64", "exp", op.negative(x)))
    return op.call_extern("float64", name, *args)
