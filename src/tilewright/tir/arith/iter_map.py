"""Affine iterator maps: index expressions as splits and fusions of loops, checked for being one-to-one.

A loop nest that was split, fused and reordered computes its indices from its loop variables by `+`, `*`, `//` and `%`
with constants. `detect_iter_map` recovers the splits and fusions, so that one can tell whether each point is visited
(surjective), and exactly once (bijective), and turn the map round (`iter_inverse.py`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.linear import Linear, conjuncts
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var
from tilewright.tir.visitor import uses_var


class IterMapLevel(enum.IntEnum):
    """The strictness of `detect_iter_map`: nothing, every combination of index values, or each exactly once."""

    NO_CHECK = 0
    SURJECTIVE = 1
    BIJECTIVE = 3


@dataclass(frozen=True)
class IterMark:
    """An iterator that runs from 0 to `extent` - 1: a loop variable less its first value, or a fusion of others."""

    source: Var | IterSumExpr
    extent: int
    first: int = 0

    def to_expr(self) -> Expr:
        """The value as an index expression."""
        return self.source - self.first if isinstance(self.source, Var) else self.source.to_expr()


@dataclass(frozen=True)
class IterSplitExpr:
    """`source // lower_factor % extent * scale`: the digits of an iterator from one position to another."""

    source: IterMark
    lower_factor: int
    extent: int
    scale: int = 1

    def digits(self) -> Expr:
        """The value without the scale."""
        value = op.floordiv(self.source.to_expr(), self.lower_factor)
        whole = self.lower_factor * self.extent >= self.source.extent
        return value if whole else op.floormod(value, self.extent)

    def to_expr(self) -> Expr:
        """The value as an index expression."""
        return self.digits() * self.scale


@dataclass(frozen=True)
class IterSumExpr:
    """`args[0] + args[1] + … + base`; the base holds no iterator."""

    args: tuple[IterSplitExpr, ...]
    base: Expr

    def to_expr(self) -> Expr:
        """The value as an index expression."""
        total = op.const(0, self.base.dtype)
        for arg in self.args:
            total = total + op.cast(self.base.dtype, arg.to_expr())
        return total + self.base


@dataclass(frozen=True)
class IterMapResult:
    """One sum an index, of at most one split each where a level was demanded; empty, with `errors`, where it fails."""

    indices: tuple[IterSumExpr, ...]
    errors: tuple[str, ...] = ()


class NotAffine(ValueError):
    """An index is no split or fusion of iterators; the message says which and why."""


def detect_iter_map(
    indices: Sequence[Expr],
    iterators: Mapping[Var, Range],
    predicate: Expr | None = None,
    level: IterMapLevel = IterMapLevel.SURJECTIVE,
) -> IterMapResult:
    """`indices` as splits and fusions of `iterators`, which all run independently where `predicate` holds.

    `[i // 4, i % 4]` for i in [0, 16) are two splits of i and bijective; `[i * 4 + j]` for j in [0, 4) is a fusion.
    SURJECTIVE: every combination of values of the indices occurs. BIJECTIVE: each occurs once.
    Ranges and factors must be constants, dividends must divide evenly, and `predicate` may bound fusions from above,
    such as `i * 4 + j < 10`; other names may stand in what is added only. Errors are returned, not raised.
    """
    try:
        parser = _Parser(iterators)
        parser.restrict(predicate)
        sums = tuple(parser.parse(x) for x in indices)
        if level != IterMapLevel.NO_CHECK:
            sums = tuple(parser.single(s, x) for s, x in zip(sums, indices, strict=True))
            parser.check_limits(sums)
            check_splits(sums, iterators, level)
    except NotAffine as failure:
        return IterMapResult((), (str(failure),))
    return IterMapResult(sums)


def iter_map_simplify(
    indices: Sequence[Expr], iterators: Mapping[Var, Range], predicate: Expr | None = None
) -> list[Expr]:
    """`indices` written out from their splits, where all are splits and fusions; else simplified as they are."""
    known = Analyzer()
    for variable, span in iterators.items():
        known.bind(variable, span)
    found = detect_iter_map(indices, iterators, predicate, IterMapLevel.NO_CHECK)
    return [known.simplify(s.to_expr()) for s in found.indices] or [known.simplify(x) for x in indices]


def normalize_iter_map_to_expr(total: IterSumExpr | IterSplitExpr | IterMark) -> Expr:
    """A part of a detected map as an index expression of the loop variables, simplified."""
    return Analyzer().simplify(total.to_expr())


def marks_of(sums: Sequence[IterSumExpr]) -> dict[IterMark, list[IterSplitExpr]]:
    """The iterators that the sums are made of, each before those it is a fusion of, with the splits used of it."""
    order: dict[IterMark, list[IterSplitExpr]] = {}

    def visit(mark: IterMark) -> None:
        if mark not in order:
            for arg in mark.source.args if isinstance(mark.source, IterSumExpr) else ():
                visit(arg.source)
            order[mark] = []

    for arg in [a for s in sums for a in s.args]:
        visit(arg.source)
    inner = [m.source for m in order if isinstance(m.source, IterSumExpr)]
    for arg in [a for s in (*sums, *inner) for a in s.args]:
        order[arg.source].append(arg)
    return dict(reversed(order.items()))


def check_splits(sums: Sequence[IterSumExpr], iterators: Mapping[Var, Range], level: IterMapLevel) -> None:
    """Raise NotAffine unless the splits of each iterator are separate digits of it, for BIJECTIVE all of them."""
    marks = marks_of(sums)
    for mark, splits in marks.items():
        position = 1
        for split in sorted(splits, key=lambda s: (s.lower_factor, s.extent)):
            gap = split.lower_factor != position
            if split.lower_factor % position or (gap and level == IterMapLevel.BIJECTIVE):
                raise NotAffine(f"the splits of {mark.to_expr()!r} overlap or leave a gap at {position}")
            position = split.lower_factor * split.extent
        if level == IterMapLevel.BIJECTIVE and position != mark.extent:
            raise NotAffine(f"{mark.to_expr()!r} takes {mark.extent} values, of which {position} are distinguished")
    used = {mark.source for mark in marks}
    missing = [v.name for v, span in iterators.items() if v not in used and op.as_const(span.extent) != 1]
    if level == IterMapLevel.BIJECTIVE and missing:
        raise NotAffine(f"no index depends on {', '.join(missing)}")


Group = tuple[tuple[IterSplitExpr, ...], int]  # the splits of a fusion, scaled so that the least scale is 1


class _Parser:
    """Reads index expressions bottom-up into sums of splits."""

    def __init__(self, iterators: Mapping[Var, Range]) -> None:
        self.analyzer = Analyzer()
        self.marks: dict[Var, IterMark] = {}
        self.limited: dict[tuple[IterSplitExpr, ...], IterMark] = {}
        for variable, span in iterators.items():
            first, extent = op.as_const(span.min), op.as_const(span.extent)
            if not isinstance(first, int) or not isinstance(extent, int) or extent < 1:
                raise NotAffine(f"{variable.name} runs over {span!r}; it must be a constant range that is not empty")
            self.analyzer.bind(variable, span)
            self.marks[variable] = IterMark(variable, extent, first)

    def restrict(self, predicate: Expr | None) -> None:
        """Take in a conjunction of upper bounds of fusions."""
        for fact in [] if predicate is None else conjuncts(self.analyzer.simplify(predicate)):
            if op.is_const(fact, 1):
                continue
            if not isinstance(fact, e.LT | e.LE | e.GT | e.GE):
                raise NotAffine(f"the predicate {fact!r} is no upper bound of a fusion")
            a, b = (fact.a, fact.b) if isinstance(fact, e.LT | e.LE) else (fact.b, fact.a)
            left = self.parse(a - b)
            base = op.as_const(left.base)
            if not isinstance(base, int):
                raise NotAffine(f"the predicate {fact!r} has no constant bound")
            self._limit(left, -base + (0 if isinstance(fact, e.LT | e.GT) else 1), fact)

    def _limit(self, left: IterSumExpr, end: int, fact: Expr) -> None:
        """The fusion `left` stays below `end`."""
        args, scale = self._ordered(left.args, fact)
        end = -(-end // scale)
        if end < 1:
            raise NotAffine(f"the predicate {fact!r} holds nowhere")
        if len(args) == 1 and args[0].extent == args[0].source.extent and isinstance(args[0].source.source, Var):
            mark = args[0].source
            if any(arg.source is mark for group in self.limited for arg in group):
                raise NotAffine(f"the predicate {fact!r} bounds an iterator of a bounded fusion")
            self.marks[mark.source] = IterMark(mark.source, min(end, mark.extent), mark.first)  # type: ignore[index]
            return
        if len(args) < 2:
            raise NotAffine(f"the predicate {fact!r} bounds a part of an iterator")
        whole = self._fused(args)
        self.limited[args] = IterMark(whole.source, min(end, whole.extent))

    def check_limits(self, sums: Sequence[IterSumExpr]) -> None:
        """A fusion that the predicate bounds must be used as such, because its parts depend on each other."""
        marks = marks_of(sums)
        for args, mark in self.limited.items():
            if mark not in marks and any(arg.source in marks for arg in args):
                raise NotAffine(f"{mark.to_expr()!r} is bounded by the predicate, but its parts are used apart")

    # ------------------------------------------------------------------------------------------------- reading
    def parse(self, x: Expr) -> IterSumExpr:
        """The sum that `x` is. Raises NotAffine."""
        return self._sum(self.analyzer.linear(x), x.dtype)

    def _sum(self, form: Linear, dtype: str) -> IterSumExpr:
        total: dict[IterSplitExpr, int] = {}
        base = op.const(form.constant, dtype)
        for atom, k in form.terms.items():
            part = self._atom(atom)
            base = base + part.base * k
            for arg in part.args:
                key = IterSplitExpr(arg.source, arg.lower_factor, arg.extent)
                total[key] = total.get(key, 0) + arg.scale * k
        args = [IterSplitExpr(a.source, a.lower_factor, a.extent, k) for a, k in total.items() if k and a.extent > 1]
        return IterSumExpr(_joined(args), self.analyzer.simplify(base))

    def _atom(self, x: Expr) -> IterSumExpr:
        mark = self.marks.get(x) if isinstance(x, Var) else None
        if mark is not None:
            return IterSumExpr((IterSplitExpr(mark, 1, mark.extent),), op.const(mark.first, x.dtype))
        if not uses_var(x, self.marks.__contains__):
            return IterSumExpr((), x)
        divisor = op.as_const(x.b) if isinstance(x, e.FloorDiv | e.FloorMod) else None
        if not isinstance(divisor, int) or divisor < 1:
            raise NotAffine(f"{x!r} is neither a multiple, a quotient nor a remainder by a positive constant")
        return self._divided(x, divisor)  # type: ignore[arg-type]

    def _divided(self, x: e.FloorDiv | e.FloorMod, divisor: int) -> IterSumExpr:
        """The quotient or remainder of a fusion: its upper or lower digits."""
        inner = self.parse(x.a)
        zero = op.const(0, x.dtype)
        if not self.analyzer.can_prove(op.eq(op.floormod(inner.base, divisor), 0)):
            raise NotAffine(f"{x!r}: {inner.base!r} is no multiple of {divisor}")
        upper = isinstance(x, e.FloorDiv)
        base = self.analyzer.simplify(op.floordiv(inner.base, divisor)) if upper else zero
        rest = self.single(IterSumExpr(inner.args, zero), x.a).args
        if not rest:
            return IterSumExpr((), base)
        (split,) = rest
        if split.scale % divisor == 0:
            scaled = IterSplitExpr(split.source, split.lower_factor, split.extent, split.scale // divisor)
            return IterSumExpr((scaled,) if upper else (), base)
        size = divisor // abs(split.scale)
        if split.scale < 0 or divisor % split.scale or (split.extent % size and split.extent > size):
            raise NotAffine(f"{x!r}: {divisor} does not divide {split.extent} * {split.scale} evenly")
        if split.extent <= size:
            return IterSumExpr(() if upper else (split,), base)
        if upper:
            return IterSumExpr((IterSplitExpr(split.source, split.lower_factor * size, split.extent // size),), base)
        return IterSumExpr((IterSplitExpr(split.source, split.lower_factor, size, split.scale),), base)

    # ------------------------------------------------------------------------------------------------- fusing
    def single(self, total: IterSumExpr, x: Expr) -> IterSumExpr:
        """The sum as one split of a fusion. Raises NotAffine where values of its parts collide or leave gaps."""
        args = self._with_limits(total.args)
        if len(args) <= 1:
            return IterSumExpr(args, total.base)
        ordered, scale = self._ordered(args, x)
        mark = self._fused(ordered)
        return IterSumExpr((IterSplitExpr(mark, 1, mark.extent, scale),), total.base)

    def _ordered(self, args: Sequence[IterSplitExpr], x: Expr) -> Group:
        """The splits from the largest scale to the least, divided by the least."""
        ordered = sorted(args, key=lambda a: a.scale)
        scale = step = ordered[0].scale if ordered else 1
        for arg in ordered:
            if arg.scale != step or step <= 0:
                raise NotAffine(f"{x!r}: the scale of {arg.digits()!r} is {arg.scale} where a fusion needs {step}")
            step *= arg.extent
        divided = [IterSplitExpr(a.source, a.lower_factor, a.extent, a.scale // scale) for a in reversed(ordered)]
        return tuple(divided), scale

    def _fused(self, args: tuple[IterSplitExpr, ...]) -> IterMark:
        known = self.limited.get(args)
        if known is not None:
            return known
        return IterMark(IterSumExpr(args, op.const(0, _dtype(args[0].source))), math.prod(a.extent for a in args))

    def _with_limits(self, args: tuple[IterSplitExpr, ...]) -> tuple[IterSplitExpr, ...]:
        """The splits with those of each bounded fusion, where all of them stand there, replaced by its one."""
        for group, mark in self.limited.items():
            scale = next((a.scale for a in args if _same_digits(a, group[-1])), 0)
            parts = [IterSplitExpr(a.source, a.lower_factor, a.extent, a.scale * scale) for a in group]
            if scale and all(part in args for part in parts):
                rest = tuple(a for a in args if a not in parts)
                args = (*rest, IterSplitExpr(mark, 1, mark.extent, scale))
        return args


def _dtype(mark: IterMark) -> str:
    return mark.source.dtype if isinstance(mark.source, Var) else mark.source.base.dtype


def _same_digits(a: IterSplitExpr, b: IterSplitExpr) -> bool:
    return (a.source, a.lower_factor, a.extent) == (b.source, b.lower_factor, b.extent)


def _joined(args: list[IterSplitExpr]) -> tuple[IterSplitExpr, ...]:
    """Neighbouring digits of one iterator at neighbouring positions made one split."""
    for low in args:
        for high in args:
            position = low.lower_factor * low.extent
            if high.source == low.source and high.lower_factor == position and high.scale == low.scale * low.extent:
                whole = IterSplitExpr(low.source, low.lower_factor, low.extent * high.extent, low.scale)
                return _joined([*(a for a in args if a is not low and a is not high), whole])
    return tuple(args)
