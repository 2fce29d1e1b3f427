"""Activation functions and others of one number, by the names of Keras and TensorFlow, in plain operators."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.frontend.idioms import cast, constant, dtype_of, like, move_axis, rank_of, shape_of
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr
from tilewright.support.dtype import DType


def linear(x: Expr, alpha: float = 1.0, beta: float = 0.0) -> Expr:
    """alpha * x + beta, without the factor 1 and the summand 0."""
    scaled = x if alpha == 1 else x * alpha
    return scaled + beta if beta else scaled


def hard_linear(x: Expr, alpha: float = 0.2, beta: float = 0.5) -> Expr:
    """alpha * x + beta within 0 … 1: what most formats call the hard sigmoid."""
    return op.clip(linear(x, alpha, beta), 0.0, 1.0)


def leaky_relu(x: Expr, alpha: float = 0.01) -> Expr:
    """`x` where positive, alpha * x elsewhere."""
    return op.nn.leaky_relu(x, alpha=alpha)


def scaled_tanh(x: Expr, alpha: float = 1.0, beta: float = 1.0) -> Expr:
    """alpha * tanh(beta * x)."""
    return linear(op.tanh(linear(x, beta)), alpha)


def relu6(x: Expr) -> Expr:
    """`x` within 0 … 6."""
    return op.clip(x, 0.0, 6.0)


def elu(x: Expr, alpha: float = 1.0) -> Expr:
    """`x` where positive, alpha * (exp(x) - 1) elsewhere."""
    return op.where(x > 0, x, _times(op.expm1(op.minimum(x, 0)), alpha))


def celu(x: Expr, alpha: float = 1.0) -> Expr:
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""
    return op.nn.relu(x) + _times(op.expm1(op.minimum(x, 0) / alpha), alpha)


def selu(x: Expr, alpha: float = 1.6732632423543773, scale: float = 1.0507009873554805) -> Expr:
    """The self-normalizing ELU of Klambauer et al. (2017); some formats have other constants."""
    return _times(elu(x, alpha), scale)


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x))."""
    return op.nn.relu(x) + op.log1p(op.exp(-op.abs(x)))


def softsign(x: Expr) -> Expr:
    """x / (1 + |x|)."""
    return x / (1 + op.abs(x))


def sinc(x: Expr) -> Expr:
    """sin(π x) / (π x), 1 at 0."""
    scaled, zero = x * math.pi, op.equal(x, 0)
    safe = op.where(zero, 1, scaled)
    return op.where(zero, 1, op.sin(safe) / safe)


def silu(x: Expr) -> Expr:
    """x times its sigmoid."""
    return op.nn.silu(x)


def log_sigmoid(x: Expr) -> Expr:
    """log(sigmoid(x))."""
    return op.minimum(x, 0) - op.log1p(op.exp(-op.abs(x)))


def gelu(x: Expr, approximate: bool = False) -> Expr:
    """x times the normal distribution's cumulative function, exact or by tanh (Hendrycks and Gimpel 2016)."""
    return op.nn.gelu_tanh(x) if approximate else op.nn.gelu(x)


def hard_sigmoid(x: Expr) -> Expr:
    """relu6(x + 3) / 6."""
    return relu6(x + 3) / 6


def hard_silu(x: Expr) -> Expr:
    """x times hard_sigmoid(x)."""
    return x * hard_sigmoid(x)


def mish(x: Expr) -> Expr:
    """x * tanh(softplus(x))."""
    return op.nn.mish(x)


def glu(x: Expr, axis: int = -1) -> Expr:
    """The first half of an axis times the sigmoid of the second."""
    halves = op.split(x, indices_or_sections=2, axis=axis)
    return halves[0] * op.sigmoid(halves[1])


def hard_tanh(x: Expr) -> Expr:
    """`x` within -1 … 1."""
    return op.clip(x, -1.0, 1.0)


def tanh_shrink(x: Expr) -> Expr:
    """x - tanh(x)."""
    return x - op.tanh(x)


def hard_shrink(x: Expr, threshold: float = 0.5) -> Expr:
    """`x` where its magnitude is above the threshold, 0 elsewhere."""
    return op.where(op.abs(x) > threshold, x, 0)


def soft_shrink(x: Expr, threshold: float = 0.5) -> Expr:
    """`x` moved towards 0 by the threshold."""
    return x - op.clip(x, -threshold, threshold)


def threshold(x: Expr, threshold_value: float, value: float) -> Expr:
    """`x` where above the threshold, `value` elsewhere."""
    return op.where(x > threshold_value, x, value)


def squareplus(x: Expr, b: float = 4) -> Expr:
    """(x + sqrt(x² + b)) / 2."""
    return _times(x + op.sqrt(x * x + b), 0.5)


def sparse_plus(x: Expr) -> Expr:
    """0 below -1, (x + 1)² / 4 within -1 … 1, x above."""
    one = like(1, x)
    middle = op.clip(x, -1.0, 1.0) + one
    return _times(middle * middle, 0.25) + op.nn.relu(x - one)


def sparse_sigmoid(x: Expr) -> Expr:
    """(x + 1) / 2 within 0 … 1."""
    return op.clip(_times(x + 1, 0.5), 0.0, 1.0)


def sparsemax(x: Expr, axis: int = -1) -> Expr:
    """The part of `x` above a level, as Keras computes it.

    The level is the sum of the running sums of the largest elements, as many as Martins and Astudillo (2016) let in,
    less one, divided by their number.
    """
    rank = rank_of(x)
    rows = move_axis(x, axis % rank, rank - 1)
    ordered = op.sort(rows, axis=-1, is_ascend=False)
    sums = op.cumsum(ordered, axis=rank - 1)
    positions = constant(np.arange(1, shape_of(rows)[-1] + 1), dtype_of(x))
    one = like(1, x)
    inside = ordered > (sums - one) / positions
    count = op.sum(op.cast(inside, dtype=dtype_of(x)), axis=(rank - 1,), keepdims=True)
    total = op.sum(op.where(inside, sums, 0), axis=(rank - 1,), keepdims=True)
    return move_axis(op.nn.relu(rows - ((total - one) / count)), rank - 1, axis % rank)


def stable_softmax(x: Expr, axes: tuple[int, ...]) -> Expr:
    """Exponentials divided by their sum over one axis or several."""
    if len(axes) == 1:
        return op.nn.softmax(x, axis=axes[0])
    shifted = op.exp(x - op.max(x, axis=axes, keepdims=True))
    return shifted / op.sum(shifted, axis=axes, keepdims=True)


def log_sum_exp(x: Expr, axes: tuple[int, ...], keepdims: bool) -> Expr:
    """The logarithm of the sum of exponentials; infinities stay what they are."""
    peak = op.max(x, axis=axes, keepdims=True)
    safe = op.where(op.isfinite(peak), peak, 0)
    total = op.log(op.sum(op.exp(x - safe), axis=axes, keepdims=True)) + safe
    return total if keepdims else op.squeeze(total, axis=axes)


def erfinv(x: Expr) -> Expr:
    """The inverse of the error function, in float64: Giles's approximation (2012), then three steps of Halley's method.

    How far a guess is off is seen from what remains of 1 where the error function is close to it.
    """
    given, x = x, cast(x, "float64")
    one = like(1, x)
    w = -op.log((one - x) * (one + x))
    near = _polynomial(w - 2.5, _GILES_NEAR)
    far = _polynomial(op.sqrt(op.maximum(w, 0)) - 3, _GILES_FAR)
    size, guess = op.abs(x), op.abs(op.where(w < 5, near, far) * x)
    # What the leading term of the complement is the inverse of, where only float64 comes so close to 1.
    level = op.maximum(w, 5) + math.log(2)
    closer = op.sqrt(level - op.log(level * math.pi) * 0.5)
    guess = op.where(w > 16, closer, guess)
    for _ in range(3):
        rest = one - size - op.erfc(guess)
        error = op.where(size < 0.5, op.erf(guess) - size, rest)
        slope = math.sqrt(math.pi) / 2 * op.exp(guess * guess)
        step = error * slope
        guess = guess - step / (one + guess * step)
    made = op.where(op.equal(size, one), math.inf, guess)
    return cast(op.where(op.equal(x, 0), x, op.where(x < 0, -made, made)), dtype_of(given))


_GILES_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_GILES_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


def _polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    value: Expr = like(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _times(x: Expr, factor: float) -> Expr:
    return x * factor if factor != 1 else x


def atan2(y: Expr, x: Expr) -> Expr:
    """The angle of the point (x, y), -π … π, as in C of infinite numbers and zeros with signs too."""
    zero, pi = like(0, x), like(math.pi, x)
    below, left = _has_minus(y), _has_minus(x)
    steep = op.abs(y) > op.abs(x)
    low, high = op.where(steep, x, y), op.where(steep, y, x)
    flat = low / op.where(op.equal(high, zero), 1, high)
    ones = op.where(op.equal(low < zero, high < zero), like(1, x), like(-1, x))
    flat = op.where(op.logical_and(op.isinf(low), op.isinf(high)), ones, flat)
    angle = op.atan(flat)
    half = op.where(below, like(-math.pi / 2, x), like(math.pi / 2, x))
    turned = half - angle
    return op.where(steep, turned, op.where(left, angle + op.where(below, -pi, pi), angle))


def remainder(x: Expr, y: Expr) -> Expr:
    """The remainder of floats with the sign of the divisor."""
    found, zero = op.mod(x, y), like(0, x)
    opposite = op.not_equal(found < zero, y < zero)
    return op.where(op.logical_and(opposite, op.not_equal(found, zero)), found + y, found)


def shifted_bits(x: Expr, by: Expr, left: bool) -> Expr:
    """Integers with their bits moved; by the width or more, or by less than nothing, all of them out."""
    kind = DType(dtype_of(x))
    most, zero, signed = like(kind.bits - 1, x), like(0, x), kind.code == "int"
    inside = by <= most
    if signed:
        inside = op.logical_and(inside, by >= zero)
    bounded = op.where(inside, by, most)
    if left:
        return op.where(inside, op.left_shift(x, bounded), zero)
    shifted = op.right_shift(x, bounded)
    return shifted if signed else op.where(inside, shifted, zero)


def close(x1: Expr, x2: Expr, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Expr:
    """True where floats are the same or |x1 - x2| <= atol + rtol * |x2|; `equal_nan` counts NaN as the same."""
    distance = op.abs(x1 - x2)
    near = op.logical_and(op.isfinite(distance), distance <= like(atol, x2) + like(rtol, x2) * op.abs(x2))
    made = op.logical_or(op.equal(x1, x2), near)
    return op.logical_or(made, op.logical_and(op.isnan(x1), op.isnan(x2))) if equal_nan else made


def hypot(x: Expr, y: Expr) -> Expr:
    """The root of the sum of squares, without overflow between; infinity where one is infinite, be the other NaN."""
    x, y = op.abs(x), op.abs(y)
    most, zero = op.maximum(x, y), like(0, x)
    ratio = op.minimum(x, y) / op.where(op.equal(most, zero), 1, most)
    made = most * op.sqrt(1 + ratio * ratio)
    return op.where(op.logical_or(op.isinf(x), op.isinf(y)), math.inf, made)


def _has_minus(value: Expr) -> Expr:
    """True where a number has the sign bit, which of -0 its reciprocal shows."""
    none = op.equal(value, 0)
    return op.where(none, 1 / op.where(none, value, 1), value) < 0


#: Activation functions of one argument by name, old names beside new ones.
ACTIVATIONS: dict[str, Callable[[Expr], Expr]] = {
    "linear": lambda x: x, "relu": op.nn.relu, "relu6": relu6, "elu": elu, "celu": celu, "selu": selu,
    "sigmoid": op.sigmoid, "tanh": op.tanh, "softplus": softplus, "softsign": softsign, "silu": silu, "swish": silu,
    "log_sigmoid": log_sigmoid, "gelu": gelu, "exponential": op.exp, "hard_sigmoid": hard_sigmoid,
    "hard_silu": hard_silu, "hard_swish": hard_silu, "mish": mish, "glu": glu, "hard_tanh": hard_tanh,
    "tanh_shrink": tanh_shrink, "hard_shrink": hard_shrink, "soft_shrink": soft_shrink, "squareplus": squareplus,
    "sparse_plus": sparse_plus, "sparse_sigmoid": sparse_sigmoid, "sparsemax": sparsemax,
    "leaky_relu": lambda x: op.nn.leaky_relu(x, alpha=0.2), "softmax": lambda x: op.nn.softmax(x, axis=-1),
    "log_softmax": lambda x: op.nn.log_softmax(x, axis=-1),
}  # fmt: skip
