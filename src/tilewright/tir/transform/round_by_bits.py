"""Take the integers that math functions round to from the bits of a sum, for compilers that would simplify it."""

from __future__ import annotations

from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import Call, Expr, FloatImm, IntImm
from tilewright.tir.math.double import ROUNDER64
from tilewright.tir.math.exp import ROUNDER
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.transform.folding import FoldingRewriter

#: The number that rounds, the integer of its bits, and that integer's type, by the type of float.
_ROUNDERS = {"float32": (ROUNDER, 0x4B400000, "int32"), "float64": (ROUNDER64, 0x4338 << 48, "int64")}


def round_by_bits(func: PrimFunc) -> PrimFunc:
    """`func` with a number that rounds taken away from bits, where a compiler may take `(a + b) - b` to be a.

        fma(x, c, 12582912.0) - 12582912.0
    =>
        float32(reinterpret(int32, fma(x, c, 12582912.0)) - 0x4b400000)

    The sum holds the integer in its low bits, as `tir/math/exp.py` says; beyond 22 bits (float64: 51) it would not.
    GLSL and WGSL let a compiler reorder sums: Mesa's takes the rounding away, and tanh is wrong by 0.04.
    """
    return _Rewriter()(func)


class _Rewriter(FoldingRewriter):
    def visit_Sub(self, x: e.Sub) -> Expr:
        """A difference; of a sum with a number that rounds and that number, its integer."""
        made = self.rebuild(x)
        if str(made.dtype) not in _ROUNDERS or not isinstance(made, e.Sub):
            return made
        rounder, bits, kind = _ROUNDERS[str(made.dtype)]
        if not _is(made.b, rounder) or not _adds(made.a, rounder):
            return made
        return e.Cast(made.dtype, e.Sub(op.reinterpret(kind, made.a), IntImm(DType(kind), bits)))


def _is(x: Expr, value: float) -> bool:
    return isinstance(x, FloatImm) and x.value == value


def _adds(x: Expr, value: float) -> bool:
    """True for a sum of which `value` is a term."""
    if isinstance(x, Call) and x.op == "fma":
        return _is(x.args[2], value)
    return isinstance(x, e.Add) and (_is(x.a, value) or _is(x.b, value))
