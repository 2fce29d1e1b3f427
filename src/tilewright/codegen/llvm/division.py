"""LLVM code for division and remainder of integers, which never fault, and of floats.

LLVM leaves a divisor of 0 undefined, and the smallest number divided by -1; x86 ends the process. The loop IR defines
both (docs/ir.md): a quotient or remainder by 0 is 0, and by -1 the quotient wraps around. Divisors that may be such
are replaced by 1 first, which costs little beside the division; of constants and what is known to be positive nothing
is asked. A symbolic dimension may be 0: loops over it do not run then, but the compiler may compute ahead of them.
"""

from __future__ import annotations

from tilewright.codegen.llvm.builder import FunctionBuilder, Value
from tilewright.codegen.llvm.facts import constant_lane, nonnegative, positive
from tilewright.codegen.llvm.types import integer_constant, register_type, splat
from tilewright.support.dtype import DType
from tilewright.tir import expr as e


def divide(b: FunctionBuilder, expr: e.BinaryExpr, quotient: bool) -> Value:
    """Quotient rounded towards zero, or remainder with the sign of the dividend; of floats the quotient or fmod."""
    dtype = expr.dtype
    x, y = b.value(expr.a), b.value(expr.b)
    if dtype.is_float:
        return b.define(f"{'fdiv' if quotient else 'frem'} {register_type(dtype)} {x.text}, {y.text}", x, y)
    return _Integers(b, expr, x, y).result(quotient)


def divide_down(b: FunctionBuilder, expr: e.BinaryExpr, quotient: bool) -> Value:
    """Quotient rounded down or remainder with the sign of the divisor: a shift or a mask for powers of two."""
    dtype, divisor = expr.dtype, constant_lane(expr.b)
    x = b.value(expr.a)
    kind, unsigned = register_type(dtype), _unsigned(b, expr)
    if divisor > 0 and divisor & (divisor - 1) == 0:
        if quotient:
            op, amount = "lshr" if unsigned else "ashr", divisor.bit_length() - 1
        else:
            op, amount = "and", divisor - 1
        return b.define(f"{op} {kind} {x.text}, {splat(dtype, integer_constant(dtype, amount))}", x)
    y = b.value(expr.b)
    division = _Integers(b, expr, x, y)
    return division.result(quotient) if unsigned else division.rounded_down(quotient)


def _unsigned(b: FunctionBuilder, expr: e.BinaryExpr) -> bool:
    return expr.dtype.code != "int" or (nonnegative(b, expr.a) and nonnegative(b, expr.b))


class _Integers:
    """One division: its operands, and the divisor that is safe to divide by."""

    def __init__(self, b: FunctionBuilder, expr: e.BinaryExpr, x: Value, y: Value) -> None:
        self.b, self.dtype, self.x, self.y = b, expr.dtype, x, y
        self.kind = register_type(expr.dtype)
        self.bools = register_type(DType("bool").with_lanes(expr.dtype.lanes))
        self.zero, self.one = splat(expr.dtype, "0"), splat(expr.dtype, "1")
        unsigned = _unsigned(b, expr)
        self.sign = "u" if unsigned else "s"
        constant = constant_lane(expr.b)
        known = unsigned or constant != -1 if constant else positive(b, expr.b)
        self.only_zero = unsigned or nonnegative(b, expr.b)
        self.unsafe = None if known else self._unsafe()
        self.safe = y if self.unsafe is None else self._select(self.unsafe, self.one, y.text, y)

    def _unsafe(self) -> Value:
        """The lanes whose divisor is 0, or -1 of signed ones."""
        if self.only_zero:
            return self.b.define(f"icmp eq {self.kind} {self.y.text}, {self.zero}", self.y)
        next_ = self.b.define(f"add {self.kind} {self.y.text}, {self.one}", self.y)
        return self.b.define(f"icmp ult {self.kind} {next_.text}, {splat(self.dtype, '2')}", next_)

    def _select(self, condition: Value, x: str, y: str, *operands: Value) -> Value:
        text = f"select {self.bools} {condition.text}, {self.kind} {x}, {self.kind} {y}"
        return self.b.define(text, condition, *operands)

    def result(self, quotient: bool) -> Value:
        """The quotient towards zero or its remainder."""
        op = f"{self.sign}{'div' if quotient else 'rem'}"
        made = self.b.define(f"{op} {self.kind} {self.x.text}, {self.safe.text}", self.x, self.safe)
        if self.unsafe is None or not quotient:
            return made  # a remainder by 1 is 0
        if self.only_zero:
            return self._select(self.unsafe, self.zero, made.text, made)
        times = self.b.define(f"mul {self.kind} {self.x.text}, {self.y.text}", self.x, self.y)  # by 0 or by -1
        return self._select(self.unsafe, times.text, made.text, times, made)

    def rounded_down(self, quotient: bool) -> Value:
        """The quotient rounded down, or its remainder, from those towards zero."""
        b, kind, y = self.b, self.kind, self.y
        r = self.result(quotient=False)
        differ = b.define(f"xor {kind} {r.text}, {y.text}", r, y)
        signs = b.define(f"icmp slt {kind} {differ.text}, {self.zero}", differ)
        nonzero = b.define(f"icmp ne {kind} {r.text}, {self.zero}", r)
        off = b.define(f"and {self.bools} {signs.text}, {nonzero.text}", signs, nonzero)
        if quotient:
            q = self.result(quotient=True)
            minus = b.define(f"sext {self.bools} {off.text} to {kind}", off)
            return b.define(f"add {kind} {q.text}, {minus.text}", q, minus)
        fix = self._select(off, y.text, self.zero, y)
        return b.define(f"add {kind} {r.text}, {fix.text}", r, fix)
