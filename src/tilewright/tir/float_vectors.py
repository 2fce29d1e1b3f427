"""Statements that languages with vectors have a text for: arithmetic of floats on neighbours in memory."""

from __future__ import annotations

from collections.abc import Set

from tilewright.support.recursion import nested
from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.expr import BufferLoad, Call, Expr
from tilewright.tir.stmt import BufferStore
from tilewright.tir.visitor import children

#: Lengths of such vectors: those of OpenCL (1.2, section 6.4), of which GCC and Clang have each, too.
LANES = (2, 4, 8, 16)
_ARITHMETIC = (e.Add, e.Sub, e.Mul, e.Div, e.Min, e.Max)
_COMPARISONS = (e.LT, e.LE, e.GT, e.GE, e.EQ, e.NE)
#: Elements of one size, whose vectors C compilers reinterpret and mask by one another.
_WORDS = frozenset({"float32", "int32"})
_MASKED_CALLS = frozenset(["fma", "fabs", "reinterpret", "shift_left", "shift_right", "bitwise_and", "bitwise_or"])


def has_vector(store: BufferStore, functions: Set[str] = frozenset()) -> bool:
    """True for a store of a float32 vector whose value is arithmetic, and `functions`, of such vectors and numbers."""
    return store.value.dtype.lanes in LANES and _is_run(store.indices) and _is_vector(store.value, functions)


def has_masked_vector(store: BufferStore) -> bool:
    """As `has_vector`; the value may also choose by comparisons and compute with the bits of floats, as `exp` does."""
    value = store.value
    fits = value.dtype.lanes in LANES and value.dtype.element == "float32"
    return fits and _is_run(store.indices) and _is_masked(value)


@nested
def _is_masked(x: Expr) -> bool:
    if isinstance(x, e.Broadcast):
        return str(x.dtype.element) in _WORDS and _is_number(x.value)
    if isinstance(x, BufferLoad):
        return x.dtype.element == "float32" and _is_run(x.indices)
    if isinstance(x, Call):
        known = x.op in _MASKED_CALLS and {str(arg.dtype.element) for arg in (x, *x.args)} <= _WORDS
        return known and all(map(_is_masked, x.args))
    if isinstance(x, e.Select):
        return str(x.dtype.element) in _WORDS and all(map(_is_masked, (x.condition, x.true_value, x.false_value)))
    if isinstance(x, _COMPARISONS):
        return str(x.a.dtype.element) in _WORDS and _is_masked(x.a) and _is_masked(x.b)
    kinds = {"float32": _ARITHMETIC, "int32": (e.Add, e.Sub, e.Mul)}.get(str(x.dtype.element), ())
    return isinstance(x, kinds) and _is_masked(x.a) and _is_masked(x.b)


def _is_run(indices: tuple[Expr, ...]) -> bool:
    """True for neighbours in memory."""
    index = indices[-1]
    return len(indices) == 1 and isinstance(index, e.Ramp) and op.is_const(index.stride, 1) and _is_number(index.base)


@nested
def _is_vector(x: Expr, functions: Set[str]) -> bool:
    if x.dtype.element != "float32":
        return False
    if isinstance(x, BufferLoad):
        return _is_run(x.indices)
    if isinstance(x, e.Broadcast):
        return _is_number(x.value)
    if isinstance(x, Call):
        return x.op in functions and all(_is_vector(arg, functions) for arg in x.args)
    return isinstance(x, _ARITHMETIC) and _is_vector(x.a, functions) and _is_vector(x.b, functions)


@nested
def _is_number(x: Expr) -> bool:
    """True where no vector is in it."""
    return x.dtype.lanes == 1 and all(map(_is_number, children(x)))
