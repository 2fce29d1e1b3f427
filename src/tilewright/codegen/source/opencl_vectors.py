"""Statements that OpenCL C has vectors for: arithmetic of floats on neighbours in memory (OpenCL 1.2, section 6.4)."""

from __future__ import annotations

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import BufferLoad, Call, Expr
from tilewright.tir.stmt import BufferStore
from tilewright.tir.visitor import children

#: Lengths of the language's vectors.
LANES = (2, 4, 8, 16)
_ARITHMETIC = (e.Add, e.Sub, e.Mul, e.Div, e.Min, e.Max)
#: Functions of the language that take vectors, and that no pass writes out in other terms.
_FUNCTIONS = {"fma", "exp", "log", "sqrt", "rsqrt", "tanh", "erf", "fabs", "floor", "ceil", "round", "trunc"}


def has_vector(store: BufferStore) -> bool:
    """True for a store of a vector of float32 whose value is arithmetic on such vectors and on numbers."""
    return store.value.dtype.lanes in LANES and _is_run(store.indices) and _is_vector(store.value)


def _is_run(indices: tuple[Expr, ...]) -> bool:
    """True for neighbours in memory."""
    index = indices[-1]
    return len(indices) == 1 and isinstance(index, e.Ramp) and op.is_const(index.stride, 1) and _is_number(index.base)


@nested
def _is_vector(x: Expr) -> bool:
    if x.dtype.element != "float32":
        return False
    if isinstance(x, BufferLoad):
        return _is_run(x.indices)
    if isinstance(x, e.Broadcast):
        return _is_number(x.value)
    if isinstance(x, Call):
        return x.op in _FUNCTIONS and all(map(_is_vector, x.args))
    return isinstance(x, _ARITHMETIC) and _is_vector(x.a) and _is_vector(x.b)


@nested
def _is_number(x: Expr) -> bool:
    """True where no vector is in it."""
    return x.dtype.lanes == 1 and all(map(_is_number, children(x)))
