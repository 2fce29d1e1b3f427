"""Python's operators on expressions, axes and tensors: `a + b`, `a << b`, `a == b`.

`a == b` builds the comparison wherever an expression is wanted: in `te.if_then_else(i == 2, …)`, in `tir.all`, as an
operand. Where Python wants a truth value, in dicts and sets above all, it says whether `a` and `b` are one expression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from tilewright.support.dtype import DType

if TYPE_CHECKING:
    from tilewright.tir.expr import Expr

T = TypeVar("T")

#: The modules `op` and `bits`, whose functions build expressions: their classes are made of those below.
_op: Any
_bits: Any


def build_by(op: Any, bits: Any) -> None:
    """Let operators call the functions of these two modules."""
    global _op, _bits
    _op, _bits = op, bits


class Operators(Generic[T]):
    """The operators that make a `T` of this object and another operand. `_apply` calls the function that builds it."""

    __slots__ = ()

    def _apply(self, function: Callable[..., Any], *operands: Any) -> T:
        raise NotImplementedError

    def __add__(self, other: Any) -> T:
        return self._apply(_op.add, self, other)

    def __radd__(self, other: Any) -> T:
        return self._apply(_op.add, other, self)

    def __sub__(self, other: Any) -> T:
        return self._apply(_op.subtract, self, other)

    def __rsub__(self, other: Any) -> T:
        return self._apply(_op.subtract, other, self)

    def __mul__(self, other: Any) -> T:
        return self._apply(_op.multiply, self, other)

    def __rmul__(self, other: Any) -> T:
        return self._apply(_op.multiply, other, self)

    def __truediv__(self, other: Any) -> T:
        return self._apply(_op.div, self, other)

    def __rtruediv__(self, other: Any) -> T:
        return self._apply(_op.div, other, self)

    def __floordiv__(self, other: Any) -> T:
        return self._apply(_op.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> T:
        return self._apply(_op.floordiv, other, self)

    def __mod__(self, other: Any) -> T:
        return self._apply(_op.floormod, self, other)

    def __rmod__(self, other: Any) -> T:
        return self._apply(_op.floormod, other, self)

    def __neg__(self) -> T:
        return self._apply(_op.negative, self)

    def __lshift__(self, other: Any) -> T:
        return self._apply(_bits.shift_left, self, other)

    def __rlshift__(self, other: Any) -> T:
        return self._apply(_bits.shift_left, other, self)

    def __rshift__(self, other: Any) -> T:
        return self._apply(_bits.shift_right, self, other)

    def __rrshift__(self, other: Any) -> T:
        return self._apply(_bits.shift_right, other, self)

    def __and__(self, other: Any) -> T:
        return self._apply(_bits.bitwise_and, self, other)

    def __rand__(self, other: Any) -> T:
        return self._apply(_bits.bitwise_and, other, self)

    def __or__(self, other: Any) -> T:
        return self._apply(_bits.bitwise_or, self, other)

    def __ror__(self, other: Any) -> T:
        return self._apply(_bits.bitwise_or, other, self)

    def __xor__(self, other: Any) -> T:
        return self._apply(_bits.bitwise_xor, self, other)

    def __rxor__(self, other: Any) -> T:
        return self._apply(_bits.bitwise_xor, other, self)

    def __invert__(self) -> T:
        return self._apply(_bits.bitwise_not, self)

    def __lt__(self, other: Any) -> T:
        return self._apply(_op.less, self, other)

    def __le__(self, other: Any) -> T:
        return self._apply(_op.less_equal, self, other)

    def __gt__(self, other: Any) -> T:
        return self._apply(_op.greater, self, other)

    def __ge__(self, other: Any) -> T:
        return self._apply(_op.greater_equal, self, other)

    def equal(self, other: Any) -> T:
        """The comparison with `other`, as `tir.eq` builds it."""
        return self._apply(_op.eq, self, other)

    def astype(self, dtype: str) -> T:
        """This value converted to `dtype`."""

        def cast(value: Any) -> Expr:
            converted: Expr = _op.cast(dtype, value)
            return converted

        return self._apply(cast, self)


class ExprOp(Operators["Expr"]):
    """An operand of an expression: an expression, an axis, a comparison by `==`."""

    __slots__ = ()
    __hash__ = object.__hash__

    def _apply(self, function: Callable[..., Any], *operands: Any) -> Expr:
        try:
            made: Expr = function(*operands)
        except _op.NotScalar:  # a tensor, whose own operator comes next
            return NotImplemented
        return made

    def __eq__(self, other: object) -> EqualOp:  # type: ignore[override]
        return EqualOp(self, other) if _comparable(other) else NotImplemented

    def __ne__(self, other: object) -> NotEqualOp:  # type: ignore[override]
        return NotEqualOp(self, other) if _comparable(other) else NotImplemented


def _comparable(value: object) -> bool:
    return isinstance(value, (ExprOp, int, float, np.number, np.bool_))


class EqualOp(ExprOp):
    """`a == b`: the comparison as an expression (`as_expr`), and as a truth value whether both are one expression.

    A constant and a number are one if they are equal: `A.shape[0] == 4` is true of a dimension of 4.
    """

    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any) -> None:
        self.a = a
        self.b = b

    def as_expr(self) -> Expr:
        """The comparison."""
        comparison: Expr = _op.eq(self.a, self.b)
        return comparison

    def asobject(self) -> Expr:
        """The comparison."""
        return self.as_expr()

    @property
    def dtype(self) -> DType:
        """The type of the comparison: bool, with the operands' lanes."""
        return self.as_expr().dtype

    def __bool__(self) -> bool:
        if self.a is self.b:
            return True
        if isinstance(self.b, ExprOp):
            return False
        number = _op.as_const(self.a)
        return number is not None and bool(number == self.b)

    def __repr__(self) -> str:
        return repr(self.as_expr())


class NotEqualOp(EqualOp):
    """`a != b`: the comparison as an expression, and as a truth value whether both are not one expression."""

    __slots__ = ()

    def as_expr(self) -> Expr:
        """The comparison."""
        comparison: Expr = _op.ne(self.a, self.b)
        return comparison

    def __bool__(self) -> bool:
        return not EqualOp.__bool__(self)
