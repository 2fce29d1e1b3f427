"""Dividing an affine iterator map: what some of the loops do to each index, and what the others do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilewright.tir import op
from tilewright.tir.arith.iter_map import IterMapLevel, IterSplitExpr, IterSumExpr, NotAffine, detect_iter_map
from tilewright.tir.arith.linear import conjuncts
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import collect_vars


@dataclass(frozen=True)
class DividedIndex:
    """An index as `outer * extent + inner`: `inner` is made of the inner loops, `outer` of the others.

    `outer` counts from 0; what the index starts from is in `inner`.
    """

    outer: IterSumExpr
    inner: IterSumExpr
    extent: int

    def to_expr(self) -> Expr:
        """The index again."""
        return self.outer.to_expr() * self.extent + self.inner.to_expr()


@dataclass(frozen=True)
class SubspaceDivision:
    """One `DividedIndex` an index, and the predicate in two; no indices, with `errors`, where there is no division."""

    indices: tuple[DividedIndex, ...]
    outer_predicate: Expr
    inner_predicate: Expr
    errors: tuple[str, ...] = ()


def subspace_divide(
    indices: Sequence[Expr],
    iterators: Mapping[Var, Range],
    sub_iterators: Collection[Var],
    predicate: Expr | None = None,
    level: IterMapLevel = IterMapLevel.SURJECTIVE,
) -> SubspaceDivision:
    """`indices` divided into what the loops `sub_iterators` (the inner ones) make, and what the others make around it.

    `[i * 8 + j]` with j in [0, 8) as the inner loop is i, times 8, plus j: a block of 8 that moves by 8. A conjunct of
    `predicate` must be about inner loops or about outer ones. Errors, also those of `detect_iter_map`, are returned.
    """
    none = op.const(True, "bool")
    outer, inner = none, none
    for fact in [] if predicate is None else conjuncts(predicate):
        used = [v in sub_iterators for v in collect_vars(fact) if v in iterators]
        if any(used) and not all(used):
            return SubspaceDivision((), none, none, (f"the predicate {fact!r} joins inner and outer iterators",))
        inner, outer = (op.all(inner, fact), outer) if any(used) else (inner, op.all(outer, fact))
    found = detect_iter_map(indices, iterators, predicate, level)
    if found.errors:
        return SubspaceDivision((), none, none, found.errors)
    try:
        divided = tuple(_divided(total, frozenset(sub_iterators)) for total in found.indices)
    except NotAffine as failure:
        return SubspaceDivision((), none, none, (str(failure),))
    return SubspaceDivision(divided, outer, inner)


def _divided(total: IterSumExpr, inside: frozenset[Var]) -> DividedIndex:
    zero = op.const(0, total.base.dtype)
    if not total.args:
        return DividedIndex(IterSumExpr((), zero), total, 1)
    (split,) = total.args
    outer, inner, extent = _parts(IterSplitExpr(split.source, split.lower_factor, split.extent), inside)
    scaled = tuple(_times(part, split.scale) for part in inner)
    return DividedIndex(IterSumExpr(outer, zero), IterSumExpr(scaled, total.base), extent * split.scale)


def _parts(
    split: IterSplitExpr, inside: frozenset[Var]
) -> tuple[tuple[IterSplitExpr, ...], tuple[IterSplitExpr, ...], int]:
    """(outer splits, inner splits, values of the inner ones) of a split of scale 1: outer * values + inner."""
    mark = split.source
    used = [v in inside for v in collect_vars(mark.to_expr())]
    if all(used):
        return (), (split,), split.extent
    if not any(used):
        return (split,), (), 1
    assert isinstance(mark.source, IterSumExpr)
    if split.lower_factor != 1 or split.extent != mark.extent:
        raise NotAffine(f"{split.digits()!r} takes digits of a fusion of inner and outer iterators")
    outer: tuple[IterSplitExpr, ...] = ()
    inner: tuple[IterSplitExpr, ...] = ()
    extent = 1
    for part in reversed(mark.source.args):  # from the least scale
        above, below, values = _parts(IterSplitExpr(part.source, part.lower_factor, part.extent), inside)
        if below and outer:
            raise NotAffine(f"{mark.to_expr()!r}: the inner iterator of {part.digits()!r} stands above an outer one")
        inner = (*(_times(x, part.scale) for x in below), *inner)
        extent *= values
        outer = (*(_times(x, part.scale * values // extent) for x in above), *outer)
    return outer, inner, extent


def _times(split: IterSplitExpr, factor: int) -> IterSplitExpr:
    return IterSplitExpr(split.source, split.lower_factor, split.extent, split.scale * factor)
