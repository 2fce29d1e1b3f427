"""Compute float16 and bfloat16 as float32, for languages that only store them."""

from __future__ import annotations

from tilewright.support.dtype import DType
from tilewright.tir import expr as e
from tilewright.tir.expr import Call, Expr
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.tensor_core import is_tensor_core_call
from tilewright.tir.transform.folding import FoldingRewriter
from tilewright.tir.warp_matrix import is_fragment_call

FLOAT32 = DType("float32")


def legalize_float16(func: PrimFunc) -> PrimFunc:
    """`func` with every 16-bit float operation done in float32 and rounded once, as the loop IR allows.

        y[i] = x[i] * x[i]        =>        y[i] = float16(float32(x[i]) * float32(x[i]))

    What is left of 16 bits are loads, stores and conversions from and to float32: a cast between a 16-bit float and any
    other type goes through float32 too.
    """
    return _Legalizer()(func)


class _Legalizer(FoldingRewriter):
    def visit_Expr(self, x: Expr) -> Expr:
        """The legalized expression."""
        return _legal(self.rebuild(x))


def _is_small(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits == 16


def _legal(x: Expr) -> Expr:
    if isinstance(x, e.Cast):
        return _cast(x)
    if isinstance(x, e.FloatImm) and _is_small(x.dtype):
        return e.Cast(x.dtype, e.FloatImm(FLOAT32, x.value))
    if isinstance(x, e.BinaryExpr) and _is_small(x.a.dtype):
        made = type(x)(_wide(x.a), _wide(x.b))
        return made if isinstance(x, e.CompareExpr) else e.Cast(x.dtype, made)
    if is_fragment_call(x) or is_tensor_core_call(x):
        return x  # its arguments are positions
    if isinstance(x, Call) and x.op not in ("if_then_else", "likely", "reinterpret", "dot2") and _has_small(x):
        arguments = tuple(_wide(a) if _is_small(a.dtype) else a for a in x.args)
        if _is_small(x.dtype):
            name = "fma" if x.op == "half_fma" else x.op
            return e.Cast(x.dtype, Call(FLOAT32.with_lanes(x.dtype.lanes), name, arguments))
        return Call(x.dtype, x.op, arguments)
    return x


def _has_small(x: Call) -> bool:
    return any(_is_small(a.dtype) for a in x.args)


def _cast(x: e.Cast) -> Expr:
    source, target = x.value.dtype, x.dtype
    if _is_small(target) and source.element != "float32":
        value = _wide(x.value) if _is_small(source) else x.value
        return e.Cast(target, e.Cast(FLOAT32.with_lanes(target.lanes), value))
    if _is_small(source) and target.element != "float32":
        return e.Cast(target, _wide(x.value))
    return x


def _wide(x: Expr) -> Expr:
    """`x` as float32; a value that was just rounded is rounded all the same."""
    return e.Cast(FLOAT32.with_lanes(x.dtype.lanes), x)
