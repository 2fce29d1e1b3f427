"""Rounded high halves of products of 32 bits as calls of a C function, which processors have an instruction for.

Before: int32(shift_right(int64(a) * int64(b) + 2147483648, 32))
After:  tilewright_high(a, b)                                          (codegen/source/pairs.py)
"""

from __future__ import annotations

from tilewright.tir import call_extern
from tilewright.tir.expr import Add, Call, Cast, Expr, IntImm, Mul
from tilewright.tir.stmt import PrimFunc
from tilewright.tir.visitor import Rewriter

_HALF, _SHIFT = 1 << 31, 32


def high_halves(func: PrimFunc) -> PrimFunc:
    """Call the function; see the module's docstring."""
    return func.with_body(_Rewriter()(func.body))


class _Rewriter(Rewriter):
    def visit_Cast(self, node: Cast) -> Expr:
        """A cast, or the call that it is the result of."""
        value = node.value
        if str(node.dtype) == "int32" and isinstance(value, Call) and value.op == "shift_right":
            found = _factors(*value.args)
            if found is not None:
                return call_extern("int32", "tilewright_high", *map(self, found))
        return self.generic(node)


def _factors(total: Expr, count: Expr) -> tuple[Expr, Expr] | None:
    """The factors of 32 bits whose product is rounded and shifted; None of anything else."""
    if not isinstance(count, IntImm) or count.value != _SHIFT or not isinstance(total, Add):
        return None
    product, half = total.a, total.b
    if not isinstance(half, IntImm) or half.value != _HALF or not isinstance(product, Mul):
        return None
    a, b = product.a, product.b
    if isinstance(a, Cast) and isinstance(b, Cast) and str(a.value.dtype) == str(b.value.dtype) == "int32":
        return a.value, b.value
    return None
