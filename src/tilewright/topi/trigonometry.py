"""Inverse trigonometric and hyperbolic functions, logarithms to other bases and activations, element by element.

Each is a call that `tir/math` lowers for float32; docs/numerics.md says how exact they are.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright import tir
from tilewright.support.named import named
from tilewright.te import Tensor
from tilewright.topi.elemwise import unary


def _named(name: str, doc: str) -> Callable[[Tensor], Tensor]:
    return named(lambda x: unary(x, lambda v: tir.call_intrin(v.dtype, name, v), name), name, doc)


atan = _named("atan", "Arc tangent, in radians.")
asin = _named("asin", "Arc sine, in radians.")
acos = _named("acos", "Arc cosine, in radians.")
sinh = _named("sinh", "Hyperbolic sine.")
cosh = _named("cosh", "Hyperbolic cosine.")
asinh = _named("asinh", "Inverse of the hyperbolic sine.")
acosh = _named("acosh", "Inverse of the hyperbolic cosine.")
atanh = _named("atanh", "Inverse of the hyperbolic tangent.")
expm1 = _named("expm1", "exp(x) - 1, exact to the last places near 0 too.")
log1p = _named("log1p", "log(1 + x), exact to the last places near 0 too.")
log2 = _named("log2", "Logarithm to base 2.")
log10 = _named("log10", "Logarithm to base 10.")
erfc = _named("erfc", "1 - erf(x), exact to the last places where it vanishes too.")
silu = _named("silu", "x * sigmoid(x).")
mish = _named("mish", "x * tanh(log(1 + exp(x))).")
gelu = _named("gelu", "x times the normal distribution function.")
gelu_tanh = _named("gelu_tanh", "`gelu` in its approximation by tanh (Hendrycks and Gimpel 2016).")
