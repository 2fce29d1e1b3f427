"""The part of a buffer that loops touch: exactly, at least, or at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.int_set import IntervalSet, eval_interval
from tilewright.tir.arith.iter_map import IterMapLevel, detect_iter_map
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, Var


def estimate_region_strict_bound(
    region: Sequence[Range], domain: Mapping[Var, Range], predicate: Expr | None = None
) -> list[IntervalSet] | None:
    """Exactly the elements of `region`, one range a dimension, over all points of `domain` where `predicate` holds.

    `[i*4, i*4 + 4)` for i in [0, 8) is [0, 31]. None where that is no box, or not known to be: the dimensions depend on
    each other, there are holes, or the starts are no affine iterator map (`detect_iter_map`).
    """
    found = detect_iter_map([span.min for span in region], domain, predicate, IterMapLevel.SURJECTIVE)
    if len(found.indices) != len(region):
        return None
    simplify = Analyzer().simplify
    result = []
    for index, span in zip(found.indices, region, strict=True):
        length, last = op.as_const(simplify(span.extent)), 0
        if index.args:
            (split,) = index.args
            if not isinstance(length, int) or length < abs(split.scale):
                return None
            last = split.scale * (split.extent - 1)
        first, high = index.base + min(last, 0), index.base + max(last, 0) + span.extent - 1
        result.append(IntervalSet(simplify(first), simplify(high)))
    return result


def estimate_region_lower_bound(
    region: Sequence[Range], domain: Mapping[Var, Range], predicate: Expr | None = None
) -> list[IntervalSet] | None:
    """A box of elements that are all touched; None where none is known. It is the exact one where that is known."""
    return estimate_region_strict_bound(region, domain, predicate)


def estimate_region_upper_bound(
    region: Sequence[Range], domain: Mapping[Var, Range], predicate: Expr | None = None
) -> list[IntervalSet]:
    """A box outside of which nothing is touched: the exact one where that is known, else one interval a dimension."""
    exact = estimate_region_strict_bound(region, domain, predicate)
    if exact is not None:
        return exact
    analyzer = Analyzer()
    spans = [
        (eval_interval(r.min, domain, analyzer), eval_interval(r.min + r.extent - 1, domain, analyzer)) for r in region
    ]
    return [IntervalSet(low.min, high.max) for low, high in spans]
