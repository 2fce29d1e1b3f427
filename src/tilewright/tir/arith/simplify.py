"""The simplifier: rewrites an expression bottom-up with canonical sums, provable comparisons and a table of rules.

Index expressions (int32, int64) become sums of multiples of atoms (`linear.py`), their divisions are resolved by
`division.py`, vectors of them by `vector.py`; everything then passes the rules of `rules.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.support.recursion import nested
from tilewright.support.trace import TALLY
from tilewright.tir import bits, op
from tilewright.tir import expr as e
from tilewright.tir.arith import division
from tilewright.tir.arith.bounds import modular_of_sum
from tilewright.tir.arith.linear import INDEX_TYPES, Linear
from tilewright.tir.arith.pattern import Binding, build, fill, match
from tilewright.tir.arith.rules import RULES
from tilewright.tir.arith.vector import simplify_same, simplify_vector
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.visitor import Rewriter, collect

if TYPE_CHECKING:
    from tilewright.tir.arith.analyzer import Analyzer

_MOST_PRODUCTS = 12  # terms that multiplying two symbolic sums out may make


#: What reads memory.
_LOADS = (e.BufferLoad, e.ProducerLoad)


class Simplifier(Rewriter):
    """Rewrites expressions to simpler ones of equal value, with what `analyzer` knows; remembers its results."""

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__()
        self.analyzer = analyzer
        self.rank = analyzer.rank

    def __call__(self, node: Any) -> Any:
        found = self.memo.get(node)
        return self._simplified(node) if found is None else found

    @nested
    def _simplified(self, node: Any) -> Any:
        memo, cls = self.memo, node.__class__
        made = (self._handlers.get(cls) or self._handler(cls))(self, node)
        rules = RULES.get(made.__class__)
        if rules is not None:
            made = self._apply(rules, made)
        memo[node] = made
        memo.setdefault(made, made)
        return made

    def _apply(self, rules: list[Any], x: Expr) -> Expr:
        """The first rule of the table that fits, and its result simplified."""
        for pattern, replacement, condition in rules:
            TALLY["rule attempts"] += 1
            binding: Binding = {}
            if match(pattern, x, binding) and (condition is None or self.analyzer.can_prove(fill(condition, binding))):
                filled = fill(replacement, binding)
                if filled is not x:
                    return self(filled)
        return x

    # ----------------------------------------------------------------------------------------------- variables
    def visit_Var(self, x: Var) -> Expr:
        """The value the variable is known to have, or itself."""
        known = self.analyzer.values.get(x)
        if known is not None:
            return known
        low, high = self.analyzer.const_int_bound(x) if x.dtype.is_int else (None, None)
        return op.const(low, x.dtype) if low is not None and low == high else x

    def visit_Let(self, x: e.Let) -> Expr:
        """A constant or variable is put in place of the name; of other values the bounds are known in the body."""
        value = self(x.value)
        if isinstance(value, (IntImm, e.FloatImm, Var)):
            self.analyzer.bind(x.var, value)
            return self(x.body)
        body = self(x.body)
        return x if value is x.value and body is x.body else e.Let(x.var, value, body)

    # ------------------------------------------------------------------------------------------- sums, products
    def visit_Add(self, x: e.Add | e.Sub) -> Expr:
        """A canonical sum, for index types."""
        if x.dtype not in INDEX_TYPES:
            return self._plain(x)
        total = Linear({}, 0)
        raw = Linear.of(x)
        for atom, k in raw.terms.items():
            total = total.plus(Linear.of(self(atom)), k)
        return self._rejoined(total.shifted(raw.constant).recombined()).to_expr(x.dtype, self.rank)

    visit_Sub = visit_Add

    def _rejoined(self, form: Linear) -> Linear:
        """k*n*(x // n) + k*(x % n) replaced by k*x for symbolic n, which may be a sum that was multiplied out."""
        for atom, k in form.terms.items():
            if isinstance(atom, e.FloorMod) and not isinstance(atom.b, IntImm):
                whole = Linear.of(self(e.Mul(e.FloorDiv(atom.a, atom.b), atom.b)))
                if whole.terms and all(form.terms.get(part) == k * n for part, n in whole.terms.items()):
                    pair = whole.plus(Linear({atom: 1}))
                    return self._rejoined(form.minus(pair.times(k)).plus(Linear.of(atom.a), k))
        return form

    def visit_Mul(self, x: e.Mul) -> Expr:
        """A multiple of a sum, or two sums multiplied out, for index types."""
        if x.dtype not in INDEX_TYPES:
            return self._plain(x)
        a, b = Linear.of(self(x.a)), Linear.of(self(x.b))
        if not b.terms:
            return a.times(b.constant).to_expr(x.dtype, self.rank)
        if not a.terms:
            return b.times(a.constant).to_expr(x.dtype, self.rank)
        if (len(a.terms) + 1) * (len(b.terms) + 1) > _MOST_PRODUCTS:
            return op.multiply(a.to_expr(x.dtype, self.rank), b.to_expr(x.dtype, self.rank))
        total = a.times(b.constant).plus(Linear(b.terms), a.constant)
        for left, k in a.terms.items():
            for right, n in b.terms.items():
                total = total.plus(self.product([*self.factors(left), *self.factors(right)], x.dtype), k * n)
        return total.to_expr(x.dtype, self.rank)

    @nested
    def factors(self, atom: Expr) -> list[Expr]:
        """The factors of a product of atoms."""
        return [*self.factors(atom.a), *self.factors(atom.b)] if isinstance(atom, e.Mul) else [atom]

    def product(self, factors: list[Expr], dtype: str) -> Linear:
        """The product of atoms, in their canonical order."""
        if not factors:
            return Linear({}, 1)
        ordered = sorted(factors, key=self.rank)
        result = ordered[0]
        for factor in ordered[1:]:
            result = e.Mul(result, factor)
        return Linear({result: 1})

    def visit_FloorDiv(self, x: e.FloorDiv) -> Expr:
        """A division resolved where the dividend's bounds allow it."""
        return self._division(x, division.floordiv, division.floordiv_symbolic)

    def visit_FloorMod(self, x: e.FloorMod) -> Expr:
        """A remainder resolved where the dividend's bounds allow it."""
        return self._division(x, division.floormod, division.floormod_symbolic)

    def _division(self, x: Any, by_constant: Callable[..., Linear], symbolic: Callable[..., Linear | None]) -> Expr:
        if x.dtype not in INDEX_TYPES:
            return self._plain(x)
        a, b = self(x.a), self(x.b)
        form = Linear.of(a)
        if isinstance(b, IntImm) and b.value > 0 and self.analyzer.exact(form):
            result: Linear | None = by_constant(self, form, b.value, x.dtype)
        else:
            result = None if isinstance(b, IntImm) else symbolic(self, form, b, x.dtype)
        return build(type(x), a, b) if result is None else result.recombined().to_expr(x.dtype, self.rank)

    # --------------------------------------------------------------------------------------- order and equality
    def visit_Min(self, x: e.Min | e.Max) -> Expr:
        """The operand that is provably the smaller (for `Max` the larger)."""
        if x.dtype not in INDEX_TYPES:
            return self._plain(x)
        a, b = self(x.a), self(x.b)
        left, right = Linear.of(a), Linear.of(b)
        if self.analyzer.exact(left) and self.analyzer.exact(right):
            form = left.minus(right)
            smaller, larger = (a, b) if isinstance(x, e.Min) else (b, a)
            if self.analyzer.at_most_zero(form):
                return smaller
            if self.analyzer.at_most_zero(form.times(-1)):
                return larger
        return op.minimum(a, b) if isinstance(x, e.Min) else op.maximum(a, b)

    visit_Max = visit_Min

    def visit_CompareExpr(self, x: e.CompareExpr) -> Expr:
        """A comparison decided by bounds, known conditions or divisibility; else one with common parts removed."""
        if x.a.dtype not in INDEX_TYPES:
            return self._plain(x)
        a, b = self(x.a), self(x.b)
        left, right = Linear.of(a), Linear.of(b)
        form = left.minus(right)
        if not (self.analyzer.exact(left) and self.analyzer.exact(right)):
            decided = _DECIDE[type(x)](0, 0) if a is b else None
            return build(type(x), a, b) if decided is None else op.const(decided, x.dtype)
        decided = self._decide(type(x), form)
        if decided is not None:
            return op.const(decided, x.dtype)
        return self._shorter_comparison(type(x), form, a, b, len(left.terms) + len(right.terms))

    def visit_And(self, x: e.And | e.Or) -> Expr:
        """Logic folds its constants; the rules do the rest."""
        return self._plain(x)

    visit_Or = visit_And

    def _decide(self, cls: type, form: Linear) -> bool | None:
        """The truth of comparing `form` with 0 as `cls` does; None if it is uncertain."""
        decided = _DECIDE[cls](*self.analyzer.bound_of(form))
        if decided is not None:
            return decided
        if cls in (e.EQ, e.NE):
            step, base = modular_of_sum(self.analyzer, form)
            apart = base % step != 0 if step else base != 0
            if not apart:
                apart = self._negative(form) or self._negative(form.times(-1))
            return (cls is e.NE) if apart else None
        strict = cls in (e.LT, e.GT)
        form = form if cls in (e.LT, e.LE) else form.times(-1)
        if self.analyzer.at_most_zero(form.shifted(1) if strict else form):
            return True
        opposite = form.times(-1)
        return False if self.analyzer.at_most_zero(opposite if strict else opposite.shifted(1)) else None

    def _negative(self, form: Linear) -> bool:
        return self.analyzer.at_most_zero(form.shifted(1))

    def _shorter_comparison(self, cls: type, form: Linear, a: Expr, b: Expr, terms: int) -> Expr:
        """`x*16 + y < 64` with y in [0, 16) becomes `x < 4`; what stands on both sides is cancelled."""
        if cls in (e.EQ, e.NE):
            g = math.gcd(form.constant, *form.terms.values())
            if g > 1:
                form = Linear({x: k // g for x, k in form.terms.items()}, form.constant // g)
            elif len(form.terms) == terms:
                return build(cls, a, b)
            return self._comparison(cls, form, a.dtype)
        below = form if cls in (e.LT, e.LE) else form.times(-1)
        below = below if cls in (e.LT, e.GT) else below.shifted(-1)
        for g in sorted({abs(k) for k in form.terms.values()} - {1}, reverse=True):
            found = division.split_by(self, below, g)
            if found is not None:
                return self(self._comparison(cls, _as_compared(cls, found[0]), a.dtype))
        constants = bool(Linear.of(a).constant and Linear.of(b).constant)
        return self._comparison(cls, form, a.dtype) if len(form.terms) < terms or constants else build(cls, a, b)

    def _comparison(self, cls: type, form: Linear, dtype: str) -> Expr:
        """`form` compared with 0, terms with negative coefficients moved to the other side."""
        positive = Linear({x: k for x, k in form.terms.items() if k > 0}, max(form.constant, 0))
        negative = Linear({x: -k for x, k in form.terms.items() if k < 0}, max(-form.constant, 0))
        if not negative.terms and positive.constant:
            positive, negative = Linear(positive.terms), Linear({}, -positive.constant)
        if not positive.terms and negative.constant:
            positive, negative = Linear({}, -negative.constant), Linear(negative.terms)
        return build(cls, positive.to_expr(dtype, self.rank), negative.to_expr(dtype, self.rank))

    # ------------------------------------------------------------------------------------ choices, casts, vectors
    def visit_Not(self, x: e.Not) -> Expr:
        """Negation of a constant or a negation."""
        value = self(x.a)
        if isinstance(value, e.Broadcast):
            return e.Broadcast(op.logical_not(value.value), value.lanes)
        return op.logical_not(value)

    def visit_Select(self, x: e.Select) -> Expr:
        """One side, if the condition is decided; else each side simplified with the condition known.

        Both sides are computed whatever the condition is, so it may not be used for where a side reads memory.
        """
        condition = self(x.condition)
        if isinstance(condition, e.Broadcast):
            condition = condition.value
        if isinstance(condition, IntImm):
            return self(x.true_value if condition.value else x.false_value)
        if condition.dtype.lanes == 1 < x.dtype.lanes:
            condition = e.Broadcast(condition, x.dtype.lanes)
        if collect(x.true_value, *_LOADS) or collect(x.false_value, *_LOADS):
            a, b = self(x.true_value), self(x.false_value)
        else:
            a, b = self._branches(condition, x.true_value, x.false_value)
        same = simplify_same(x, [condition, a, b])
        return op.select(condition, a, b) if same is None else same

    def _branches(self, condition: Expr, first: Expr, second: Expr) -> tuple[Expr, Expr]:
        with self.analyzer.constraint(condition):
            a = self(first)
        with self.analyzer.constraint(op.logical_not(condition)):
            return a, self(second)

    def visit_Cast(self, x: e.Cast) -> Expr:
        """A conversion of a constant or a broadcast, or to the type there is, is made now.

        That of a whole multiple of an index by way of float64 is the multiple: int32(round(float64(h) * 2.0)) is h * 2.
        """
        value = self(x.value)
        multiple = _whole_multiple(value) if x.dtype.is_int else None
        if multiple is not None and multiple.dtype is x.dtype:
            return self(multiple)
        known = isinstance(value, (IntImm, e.FloatImm, e.Broadcast)) or value.dtype is x.dtype
        return op.cast(x.dtype, value) if known or value is not x.value else x

    def visit_Ramp(self, x: e.Ramp) -> Expr:
        """A ramp of stride 0 is a broadcast."""
        made = self.rebuild(x)
        return e.Broadcast(made.base, made.lanes) if op.is_const(made.stride, 0) else made

    def visit_Call(self, x: e.Call) -> Expr:
        """`if_then_else`, `likely` and bits of constants are resolved; of other calls the arguments are simplified."""
        if x.op == "likely":
            return op.likely(self(x.args[0]))
        if x.op != "if_then_else":
            return _bits_folded(self.rebuild(x))
        condition = self(x.args[0])
        if isinstance(condition, IntImm):
            return self(x.args[1] if condition.value else x.args[2])
        return op.if_then_else(condition, *self._branches(condition, x.args[1], x.args[2]))

    def visit_BinaryExpr(self, x: e.BinaryExpr) -> Expr:
        """Operands simplified, constants folded."""
        return self._plain(x)

    def _plain(self, x: Any) -> Expr:
        a, b = self(x.a), self(x.b)
        if x.dtype.lanes > 1:
            vector = simplify_vector(self, type(x), a, b)
            if vector is not None:
                return vector
        if a is x.a and b is x.b and not (isinstance(a, (IntImm, e.FloatImm)) or isinstance(b, (IntImm, e.FloatImm))):
            return x
        return build(type(x), a, b)


_SHIFTS = (bits.shift_left, bits.shift_right)
#: Calls that are computed where their operands are constants.
_BITS: dict[Any, Callable[[Any, Any], Expr]] = {
    made.__name__: made for made in (bits.bitwise_and, bits.bitwise_or, bits.bitwise_xor, *_SHIFTS)
}


#: Factors below it times 32 bits are exact in float64.
_EXACT = 2.0**21


def _whole_multiple(value: Expr) -> Expr | None:
    """`i * c` where `value` rounds float64(i) * c, with an integer `i` of 32 bits and a whole `c`."""
    product = value.args[0] if isinstance(value, e.Call) and value.op in ("round", "floor", "ceil", "trunc") else None
    if not isinstance(product, e.Mul) or not isinstance(product.a, e.Cast) or not isinstance(product.b, e.FloatImm):
        return None
    index, factor = product.a.value, float(product.b.value)
    exact = index.dtype.is_int and index.dtype.bits <= 32 and factor.is_integer() and abs(factor) < _EXACT
    return index * int(factor) if exact and product.dtype == "float64" else None


def _bits_folded(call: Expr) -> Expr:
    """The value of a bit operation on constants; a shift by more bits than there are is left as it is."""
    fold = _BITS.get(call.op) if isinstance(call, e.Call) else None
    if fold is None or not isinstance(call, e.Call):
        return call
    a, b = call.args
    if not (isinstance(a, IntImm) and isinstance(b, IntImm)):
        return call
    return call if fold in _SHIFTS and not 0 <= b.value < call.dtype.bits else fold(a, b)


def _as_compared(cls: type, below: Linear) -> Linear:
    """The sum that compares with 0 as `cls` says where `below` < 0."""
    form = below if cls in (e.LT, e.LE) else below.times(-1)
    return form.shifted(1 if cls is e.LE else -1 if cls is e.GE else 0)


def _below(limit: int | None, value: int) -> bool:
    return limit is not None and limit < value


def _above(limit: int | None, value: int) -> bool:
    return limit is not None and limit > value


def _decision(always: Callable[..., bool], never: Callable[..., bool]) -> Callable[..., bool | None]:
    def decide(*bound: int | None) -> bool | None:
        return True if always(*bound) else False if never(*bound) else None

    return decide


_DECIDE: dict[type, Callable[..., bool | None]] = {  # of bounds of a - b: whether `a cls b` holds
    e.LT: _decision(lambda low, high: _below(high, 0), lambda low, high: _above(low, -1)),
    e.LE: _decision(lambda low, high: _below(high, 1), lambda low, high: _above(low, 0)),
    e.GT: _decision(lambda low, high: _above(low, 0), lambda low, high: _below(high, 1)),
    e.GE: _decision(lambda low, high: _above(low, -1), lambda low, high: _below(high, 0)),
    e.EQ: _decision(lambda low, high: low == high == 0, lambda low, high: _above(low, 0) or _below(high, 0)),
    e.NE: _decision(lambda low, high: _above(low, 0) or _below(high, 0), lambda low, high: low == high == 0),
}
