"""Integer analysis of index expressions: bounds, simplification, interval sets, linear systems, iterator maps."""

from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.arith.constraints import IntConstraints, IntConstraintsTransform
from tilewright.tir.arith.deduce_bound import deduce_bound
from tilewright.tir.arith.int_set import IntervalSet, eval_interval, intersect, union
from tilewright.tir.arith.iter_divide import DividedIndex, SubspaceDivision, subspace_divide
from tilewright.tir.arith.iter_inverse import inverse_affine_iter_map
from tilewright.tir.arith.iter_map import (
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    iter_map_simplify,
    normalize_iter_map_to_expr,
)
from tilewright.tir.arith.linear import Linear, detect_clip_bound, detect_linear
from tilewright.tir.arith.linear_equations import solve_linear_equations
from tilewright.tir.arith.linear_inequalities import (
    SolvedInequalities,
    VariableBounds,
    deskew_ranges,
    solve_linear_inequalities,
)
from tilewright.tir.arith.range import Range
from tilewright.tir.arith.region import (
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)

__all__ = [
    "Analyzer",
    "DividedIndex",
    "IntConstraints",
    "IntConstraintsTransform",
    "IntervalSet",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplitExpr",
    "IterSumExpr",
    "Linear",
    "Range",
    "SolvedInequalities",
    "SubspaceDivision",
    "VariableBounds",
    "deduce_bound",
    "deskew_ranges",
    "detect_clip_bound",
    "detect_iter_map",
    "detect_linear",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_interval",
    "intersect",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "solve_linear_equations",
    "solve_linear_inequalities",
    "subspace_divide",
    "union",
]
