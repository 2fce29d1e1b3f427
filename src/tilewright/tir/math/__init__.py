"""Math functions of float32 as loop IR expressions: polynomials that vectorize, with a stated error bound each.

Each `lower_f(x)` takes a scalar or vector float32 expression and returns one that codegen can emit without a math
library; `tir/transform/lower_intrinsics.py` applies them. Bounds are checked by tests against float64.
"""

from tilewright.tir.math.erf import lower_erf, lower_erfc, lower_gelu, lower_gelu_tanh
from tilewright.tir.math.exp import lower_exp, lower_exp2_approx, lower_expm1
from tilewright.tir.math.hyperbolic import (
    lower_acosh,
    lower_asinh,
    lower_atanh,
    lower_cosh,
    lower_mish,
    lower_sigmoid,
    lower_silu,
    lower_sinh,
    lower_tanh,
)
from tilewright.tir.math.inverse import lower_acos, lower_asin, lower_atan
from tilewright.tir.math.log import lower_log, lower_log1p, lower_log2, lower_log10
from tilewright.tir.math.power import lower_pow
from tilewright.tir.math.trigonometric import lower_cos, lower_sin, lower_tan

__all__ = [
    "lower_acos",
    "lower_acosh",
    "lower_asin",
    "lower_asinh",
    "lower_atan",
    "lower_atanh",
    "lower_cos",
    "lower_cosh",
    "lower_erf",
    "lower_erfc",
    "lower_exp",
    "lower_exp2_approx",
    "lower_expm1",
    "lower_gelu",
    "lower_gelu_tanh",
    "lower_log",
    "lower_log1p",
    "lower_log2",
    "lower_log10",
    "lower_mish",
    "lower_pow",
    "lower_sigmoid",
    "lower_silu",
    "lower_sin",
    "lower_sinh",
    "lower_tan",
    "lower_tanh",
]  # fmt: skip
