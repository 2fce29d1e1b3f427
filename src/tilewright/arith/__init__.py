"""Integer analysis of index expressions: bounds, modular sets, simplification, interval sets, linear forms."""

from tilewright.arith.analyzer import Analyzer
from tilewright.arith.linear import Linear, detect_clip_bound, detect_linear
from tilewright.arith.range import Range

__all__ = ["Analyzer", "Linear", "Range", "detect_clip_bound", "detect_linear"]
