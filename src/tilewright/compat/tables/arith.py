"""`tvm.arith`: classic results from this package's own `arith`."""

from tilewright.compat.tables.table import Table, leads_to

_NAMES = leads_to(
    "tilewright.compat.arith.analyzer",
    "Analyzer",
    "ConstIntBound",
    "IntSet",
    "IntervalSet",
    "ModularSet",
    "deduce_bound",
    "detect_clip_bound",
    "detect_linear_equation",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
) | leads_to(
    "tilewright.compat.arith.int_systems",
    *("detect_iter_map", "inverse_affine_iter_map", "iter_map_simplify", "normalize_iter_map_to_expr"),
    *("solve_linear_equations", "solve_linear_inequalities", "subspace_divide"),
)
#: What v0.6 and before call them.
_NAMES |= leads_to(
    "tilewright.compat.arith.analyzer",
    DeduceBound="deduce_bound",
    DetectClipBound="detect_clip_bound",
    DetectLinearEquation="detect_linear_equation",
    intset_vector="int_set_vector",
    intset_interval="IntervalSet",
    intset_single_point="int_set_point",
)
_SETS = leads_to(
    "tilewright.compat.arith.analyzer",
    *("IntSet", "IntervalSet", "estimate_region_lower_bound", "estimate_region_strict_bound"),
    *("estimate_region_upper_bound", "neg_inf", "pos_inf", "union_lower_bound"),
)

TABLES = (
    Table("tvm.arith", "Integer analysis.", names=_NAMES, open=("tilewright.tir.arith",)),
    Table("tvm.arith.analyzer", "The analyzer.", names=_NAMES),
    Table("tvm.arith.int_set", "Sets of integers.", names=_SETS),
)
