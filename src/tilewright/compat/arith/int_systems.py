"""`tvm.arith`: systems of conditions on integers, and maps of iterators, with the classic results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from tilewright.compat.arith.analyzer import condition_of
from tilewright.tir import arith, op
from tilewright.tir.arith.constraints import IntConstraints, IntConstraintsTransform
from tilewright.tir.arith.linear_inequalities import deskew_ranges
from tilewright.tir.expr import Expr, IntImm, Var

Ranges = Mapping[Var, Any]


class Transform(IntConstraintsTransform):
    """Two systems, `src` and `dst`, and each variable of one in terms of the other's."""

    #: The system that was given, and that over new variables.
    src, dst = property(attrgetter("source")), property(attrgetter("target"))
    #: Old variables by new ones, and new variables by old ones.
    src_to_dst, dst_to_src = property(attrgetter("source_to_target")), property(attrgetter("target_to_source"))


def solve_linear_equations(
    equations: Sequence[Any], variables: Sequence[Var] | None = None, ranges: Ranges | None = None
) -> Transform:
    """The points that satisfy `equations`; of a system that has none the relation False, and no variables."""
    given = [op.convert(one) for one in equations]
    if not variables:
        same = IntConstraints((), {}, tuple(given))
        return Transform(same, same, {}, {})
    return _transform(arith.solve_linear_equations(given, list(variables), dict(ranges or {})))


def solve_linear_inequalities(
    equations: Sequence[Any],
    variables: Sequence[Var] | None = None,
    ranges: Ranges | None = None,
    deskew_range: bool = False,
) -> Any:
    """Ranges of the variables, each in terms of those after it, and what else must hold; with `deskew_range` a system
    over variables that start at 0."""
    given = [op.convert(one) for one in equations]
    if not variables:
        same = IntConstraints((), {}, tuple(given))
        return Transform(same, same, {}, {}) if deskew_range else same
    if deskew_range:
        return _transform(deskew_ranges(given, list(variables), dict(ranges or {})))
    solved = arith.solve_linear_inequalities(given, list(variables), dict(ranges or {}))
    if any(op.is_const(one, 0) for one in solved.rest):
        return _IMPOSSIBLE
    return _ranges_of(solved)


#: What stands for a system that no point satisfies.
_IMPOSSIBLE = IntConstraints((), {}, (IntImm("bool", 0),))


def _transform(found: IntConstraintsTransform) -> Transform:
    if any(op.is_const(one, 0) for one in found.target.relations):
        return Transform(found.source, _IMPOSSIBLE, {}, {})
    return Transform(found.source, found.target, found.source_to_target, found.target_to_source)


def _ranges_of(solved: Any) -> IntConstraints:
    """Every variable's range as far as it is bounded on both sides, and all bounds that say more, as relations."""
    analyzer = arith.Analyzer()
    ranges: dict[Var, Any] = {}
    relations: list[Expr] = []
    for variable, bound in reversed(list(solved.bounds.items())):
        span = bound.to_range()
        if span is not None:
            span = arith.Range(analyzer.simplify(span.min), _largest(analyzer, analyzer.simplify(span.extent)))
            ranges[variable] = span
            analyzer.bind(variable, span)
        own = [variable >= low for low in bound.lower] + [variable <= high for high in bound.upper]
        relations = [one for one in own if not op.is_const(analyzer.simplify(one), 1)] + relations
    return IntConstraints(tuple(solved.bounds), ranges, (*relations, *solved.rest))


def _largest(analyzer: Any, extent: Expr) -> Expr:
    """An extent as a number where its largest value is known."""
    _, high = analyzer.const_int_bound(extent)
    return extent if high is None else op.const(max(high, 0), extent.dtype)


@dataclass(frozen=True)
class IterMap:
    """One sum an index, as a list; of v0.9 and later by `indices`, with `errors`."""

    indices: Sequence[Any]
    errors: Sequence[str] = ()
    padding_predicate: Any = None

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, position: Any) -> Any:
        return self.indices[position]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.indices)


def detect_iter_map(
    indices: Sequence[Any], input_iters: Ranges, predicate: Any = True, *level: Any, **more: Any
) -> IterMap:
    """The splits and fusions that make `indices` of iterators; none where they are not of that kind.

    Iterators of one value make no difference: `simplify_trivial_iterators`, which says whether they stay, is taken.
    """
    more.pop("simplify_trivial_iterators", True)
    checked = more.pop("check_level", more.pop("require_bijective", level[0] if level else False))
    if more or len(level) > 1:
        raise TypeError(f"detect_iter_map takes indices, input_iters, predicate and a level, not {[*more, *level[1:]]}")
    given = [op.convert(one) for one in indices]
    found = arith.detect_iter_map(given, dict(input_iters), condition_of(predicate), _level(checked))
    return IterMap(list(found.indices), list(found.errors), IntImm("bool", 0))


def _level(given: Any) -> arith.IterMapLevel:
    names = {
        "no_check": arith.IterMapLevel.NO_CHECK,
        "surjective": arith.IterMapLevel.SURJECTIVE,
        "bijective": arith.IterMapLevel.BIJECTIVE,
    }
    if isinstance(given, bool):
        return arith.IterMapLevel.BIJECTIVE if given else arith.IterMapLevel.SURJECTIVE
    return names[given.lower()] if isinstance(given, str) else arith.IterMapLevel(int(given))


def inverse_affine_iter_map(iter_map: Sequence[Any], outputs: Sequence[Expr]) -> dict[Var, Expr]:
    """Each iterator in terms of the values of the indices."""
    sums = [_sum(one) for one in iter_map]
    return arith.inverse_affine_iter_map(sums, list(outputs))


def normalize_iter_map_to_expr(expr: Any) -> Expr:
    """A part of a map as an index expression."""
    return arith.normalize_iter_map_to_expr(_sum(expr) if isinstance(expr, _Split) else expr)


def _sum(one: Any) -> Any:
    return one.total if isinstance(one, _Split) else one


@dataclass(frozen=True)
class _Split:
    """A part of a divided index, and how many values it takes."""

    total: Any
    extent: Any

    @property
    def source(self) -> Any:
        """The system that it was made of."""
        return self.total


def iter_map_simplify(
    indices: Sequence[Any], input_iters: Ranges, predicate: Any = True, *level: Any, **more: Any
) -> list[Expr]:
    """`indices` written out from the splits and fusions that they are."""
    return arith.iter_map_simplify([op.convert(one) for one in indices], dict(input_iters), condition_of(predicate))


def subspace_divide(
    bindings: Sequence[Any], input_iters: Ranges, sub_iters: Sequence[Var], predicate: Any = True,
    *level: Any, **more: Any,
) -> list[list[Any]]:  # fmt: skip
    """For each index what outer and inner iterators make of it, then the predicate in two; empty where it cannot be."""
    checked = more.pop("check_level", more.pop("require_bijective", level[0] if level else False))
    indices, condition = [op.convert(one) for one in bindings], condition_of(predicate)
    found = arith.subspace_divide(indices, dict(input_iters), list(sub_iters), condition, _level(checked))
    if found.errors:
        return []
    parts = [[_Split(one.outer, _extent(one.outer)), _Split(one.inner, _extent(one.inner))] for one in found.indices]
    return [*parts, [_Predicate(found.outer_predicate), _Predicate(found.inner_predicate)]]


@dataclass(frozen=True)
class _Predicate:
    """A condition, where a classic division has it."""

    extent: Expr


def _extent(total: Any) -> Expr:
    return op.const(math.prod(part.extent for part in total.args))
