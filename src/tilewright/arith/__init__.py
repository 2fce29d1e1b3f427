"""Integer analysis of index expressions: bounds, modular sets, simplification, interval sets, linear forms."""

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.int_set import IntervalSet, eval_interval, intersect, union
from tilewright.arith.linear import Linear, detect_clip_bound, detect_linear
from tilewright.arith.range import Range

__all__ = [
    "Analyzer",
    "IntervalSet",
    "Linear",
    "Range",
    "detect_clip_bound",
    "detect_linear",
    "eval_interval",
    "intersect",
    "union",
]
