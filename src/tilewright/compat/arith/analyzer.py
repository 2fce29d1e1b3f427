"""`tvm.arith`: the analyzer with the classic results, and the detection of bounds and linear forms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tilewright import te, tir
from tilewright.errors import InputError
from tilewright.support.named import named
from tilewright.tir import arith, op
from tilewright.tir.structural import structural_equal

_INFINITY = 2**63 - 1


@dataclass(frozen=True)
class ConstIntBound:
    """The smallest and largest value; `NEG_INF` and `POS_INF` where there is none."""

    min_value: int
    max_value: int
    POS_INF: ClassVar[int] = _INFINITY
    NEG_INF: ClassVar[int] = -_INFINITY


@dataclass
class ModularSet:
    """The integers coeff * k + base; `coeff` is 0 for the one value `base`."""

    coeff: int
    base: int


class IntSet:
    """The integers from `min_value` to `max_value`, both included; None is an open end."""

    def __init__(self, min_value: Any, max_value: Any) -> None:
        self.min_value = None if min_value is None else op.convert(min_value)
        self.max_value = None if max_value is None else op.convert(max_value)

    @staticmethod
    def single_point(point: Any) -> IntSet:
        """The set of one value."""
        return IntSet(point, point)

    @staticmethod
    def vector(vec: Any) -> IntSet:
        """The values of the lanes of a vector."""
        if isinstance(vec, tir.Ramp):
            last = vec.base + vec.stride * (vec.lanes - 1)
            ends = (vec.base, last) if arith.Analyzer().can_prove(vec.stride >= 0) else (last, vec.base)
            return IntSet(*map(arith.Analyzer().simplify, ends))
        return IntSet.single_point(vec.value if isinstance(vec, tir.Broadcast) else vec)

    def is_nothing(self) -> bool:
        """True if the set is certainly empty."""
        if self.min_value is None or self.max_value is None:
            return False
        return arith.Analyzer().can_prove(self.max_value < self.min_value)

    def is_everything(self) -> bool:
        """True if both ends are open."""
        return self.min_value is None and self.max_value is None

    def __repr__(self) -> str:
        return f"IntervalSet[{self.min_value}, {self.max_value}]"


IntervalSet = IntSet


class Range(arith.Range):
    """The integers from `begin` up to `end`, which is not among them; `Range(n)` starts at 0."""

    __slots__ = ()

    def __init__(self, begin: Any, end: Any = None) -> None:
        low, high = (0, begin) if end is None else (begin, end)
        super().__init__(low, op.convert(high) - low)

    @classmethod
    def from_min_extent(cls, min_value: Any, extent: Any, span: Any = None) -> arith.Range:
        """The `extent` integers from `min_value` on."""
        return arith.Range(min_value, extent)


class Analyzer:
    """Facts about integer variables and conclusions from them, in the classic spelling."""

    def __init__(self) -> None:
        self._own = arith.Analyzer()

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """The smallest and largest value of `expr`."""
        low, high = self._own.const_int_bound(op.convert(expr))
        return ConstIntBound(-_INFINITY if low is None else low, _INFINITY if high is None else high)

    def modular_set(self, expr: Any) -> ModularSet:
        """coeff and base with `expr` = coeff * k + base for some integer k."""
        return ModularSet(*self._own.modular_set(op.convert(expr)))

    def int_set(self, expr: Any, dom_map: Mapping[Any, Any] | None = None) -> IntSet:
        """The values of `expr` while the variables of `dom_map` run over their sets."""
        found = arith.eval_interval(op.convert(expr), _own_sets(dom_map or {}), self._own)
        return IntSet(found.min, found.max)

    def simplify(self, expr: Any, steps: int = 2) -> Any:
        """An equal expression, usually smaller."""
        return self._own.simplify(op.convert(expr))

    #: There is one simplifier here.
    rewrite_simplify = canonical_simplify = simplify

    def can_prove(self, expr: Any) -> bool:
        """True if the condition certainly holds."""
        return self._own.can_prove(op.convert(expr))

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """True if both certainly have one value."""
        return self._own.can_prove_equal(op.convert(lhs), op.convert(rhs))

    def bind(self, var: Any, expr: Any) -> None:
        """Let `var` be an expression, or lie in a range."""
        self._own.bind(var, expr if isinstance(expr, arith.Range) else op.convert(expr))

    def update(self, var: Any, info: Any, override: bool = False) -> None:
        """Let `var` lie within a `ConstIntBound`, or in a `ModularSet`."""
        if isinstance(info, ConstIntBound):
            low = None if info.min_value <= ConstIntBound.NEG_INF else info.min_value
            high = None if info.max_value >= ConstIntBound.POS_INF else info.max_value
            self._own.set_bound(var, low, high)
        elif isinstance(info, ModularSet):
            self._own.set_modular(var, info.coeff, info.base)
        else:
            raise InputError(f"Analyzer.update takes a ConstIntBound or a ModularSet, not a {type(info).__name__}")

    def constraint_scope(self, constraint: Any) -> Any:
        """Within `with analyzer.constraint_scope(condition):` the condition is known to hold."""
        return self._own.constraint(op.convert(constraint))


def _own_sets(sets: Mapping[Any, Any]) -> dict[Any, Any]:
    return {
        (var.var if isinstance(var, te.IterVar) else var): (
            arith.IntervalSet(s.min_value, s.max_value) if isinstance(s, IntSet) else s
        )
        for var, s in sets.items()
    }


def detect_linear_equation(expr: Any, var_list: Sequence[Any]) -> list[Any]:
    """Coefficients of the variables, then what is added: `expr` = c0*v0 + c1*v1 + … + base; [] if it is not linear."""
    found = arith.detect_linear(op.convert(expr), list(var_list))
    return [] if found is None else [arith.Analyzer().simplify(part) for part in found]


def detect_clip_bound(expr: Any, var_list: Sequence[Any]) -> list[Any]:
    """The smallest and largest value of each variable for which `expr` can hold, None if open; [] if unknown."""
    found = arith.detect_clip_bound(op.convert(expr), list(var_list))
    if found is None:
        return []
    simplify = arith.Analyzer().simplify
    ends = [end for var in var_list for end in found.get(var, (None, None))]
    return [None if end is None else simplify(end) for end in ends]


def deduce_bound(var: Any, cond: Any, hint_map: Mapping[Any, Any], relax_map: Mapping[Any, Any]) -> IntSet:
    """The values of `var` for which `cond` holds whatever the variables of `relax_map` are; empty if none is known."""
    hints = {var: known for var, known in _own_sets(hint_map).items() if var not in relax_map}
    found = arith.deduce_bound(var, op.convert(cond), hints, _own_sets(relax_map))
    return IntSet(1, 0) if found is None else IntSet(found.min, found.max)


def expr_deep_equal(lhs: Any, rhs: Any) -> bool:
    """True if both are one expression; Python numbers are constants."""
    return bool(structural_equal(op.convert(lhs), op.convert(rhs)))


def neg_inf() -> Any:
    """The open end of a set."""
    return None


pos_inf = neg_inf


def union_lower_bound(sets: Sequence[IntSet]) -> IntSet:
    """A set whose values are all in one of `sets`: their union where that has no holes, else the first."""
    first, *others = sets
    for other in others:
        joined = _joined(first, other) or _joined(other, first)
        first = first if joined is None else joined
    return first


def _joined(low: IntSet, high: IntSet) -> IntSet | None:
    """The union of two sets if the second begins within the first, or right behind it."""
    proves = arith.Analyzer().can_prove
    begins = low.min_value is None or (high.min_value is not None and proves(low.min_value <= high.min_value))
    meets = low.max_value is None or high.min_value is None or proves(high.min_value <= low.max_value + 1)
    if not begins or not meets:
        return None
    if low.max_value is None or high.max_value is None:
        return IntSet(low.min_value, None)
    ends = arith.Analyzer().simplify(op.maximum(low.max_value, high.max_value))
    return IntSet(low.min_value, ends)


def _estimated(kind: str, doc: str) -> Any:
    own = getattr(arith, f"estimate_region_{kind}_bound")

    def estimate(region: Sequence[Any], var_dom: Mapping[Any, Any], predicate: Any = True) -> list[IntSet] | None:
        return _sets_of(own(list(region), dict(var_dom), condition_of(predicate)))

    return named(estimate, own.__name__, doc)


estimate_region_lower_bound = _estimated("lower", "A box of elements that are all touched; None where none is known.")
estimate_region_strict_bound = _estimated("strict", "Exactly the elements that are touched; None where that is no box.")
estimate_region_upper_bound = _estimated("upper", "A box outside of which nothing is touched.")


def condition_of(predicate: Any) -> Any:
    """The condition that a predicate is; None for one that always holds."""
    condition = op.convert(predicate)
    return None if op.is_const(condition, 1) else condition


def _sets_of(found: Sequence[Any] | None) -> list[IntSet] | None:
    return None if found is None else [IntSet(one.min, one.max) for one in found]


#: Sets of integers as v0.6 makes them.
int_set_vector, int_set_point = IntSet.vector, IntSet.single_point
