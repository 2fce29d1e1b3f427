"""Special functions, in double precision: series, recurrences, and integrals by Gauss's rule (NIST DLMF names each)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.frontend.builders import functions
from tilewright.frontend.idioms import cast, constant, like, rank_of
from tilewright.frontend.torch.node import TorchNode
from tilewright.frontend.torch.registry import converts
from tilewright.relay import op
from tilewright.relay.ir.expr import Expr

_DOUBLE = "float64"
_INFINITY, _NAN = math.inf, math.nan


def number(value: float) -> Expr:
    """A double."""
    return constant(value, _DOUBLE)


def horner(x: Expr, coefficients: list[float]) -> Expr:
    """The polynomial with these coefficients, that of x^0 first."""
    made: Expr = number(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        made = made * x + number(coefficient)
    return made


def integral(x: Expr, end: Expr, function: Callable[[Expr, Expr], Expr], nodes: int = 96) -> Expr:
    """The integral of `function(x, t)` over t from 0 to `end`, by Gauss's rule of Legendre."""
    positions, weights = np.polynomial.legendre.leggauss(nodes)
    wide_x, wide_end = (op.expand_dims(value, axis=rank_of(value)) for value in (x, end))
    t = wide_end * constant((positions + 1) / 2, _DOUBLE)
    terms = function(wide_x, t) * constant(weights / 2, _DOUBLE)
    return op.sum(terms, axis=(rank_of(terms) - 1,)) * end


def _of_one(function: Callable[[Expr], Expr]) -> Callable[[TorchNode], Expr]:
    return lambda node: cast(function(node.tensor("self" if "self" in node.arguments else "x", _DOUBLE)), node.dtype)


# -------------------------------------------------------------------------------------------------- gamma (DLMF 5)
#: B(2j), Bernoulli's numbers.
_BERNOULLI = [1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6]

#: Below it arguments are moved up by as much before an asymptotic series is summed.
_SHIFT = 8


def log_gamma(x: Expr) -> Expr:
    """log |Gamma(x)|: Stirling's series from 8 on, the recurrence below, reflection below 1/2."""
    left = x < number(0.5)
    z = op.where(left, number(1) - x, x)
    small = z < number(_SHIFT)
    product: Expr = z
    for step in range(1, _SHIFT):
        product = product * (z + number(step))
    moved = op.where(small, z + number(_SHIFT), z)
    inverse = number(1) / moved
    square = inverse * inverse
    series = horner(square, [b / (2 * j * (2 * j - 1)) for j, b in enumerate(_BERNOULLI, start=1)])
    log = op.log(moved)
    body = (moved - number(0.5)) * log - moved
    made = body + number(0.5 * math.log(2 * math.pi)) + series * inverse
    made = made - op.where(small, op.log(op.where(small, product, number(1))), number(0))
    # By the distance of the nearest integer, not of the one below, from which -1e-30 is 1.
    sine = op.abs(op.sin(number(math.pi) * (x - op.round(x))))
    mirrored = number(math.log(math.pi)) - op.log(sine) - made
    found = op.where(left, mirrored, made)
    pole = op.logical_or(op.logical_and(x <= number(0), op.equal(x, op.floor(x))), op.isinf(x))
    zero = op.logical_or(op.equal(x, number(1)), op.equal(x, number(2)))
    return op.where(pole, number(_INFINITY), op.where(zero, number(0), found))


def digamma(x: Expr) -> Expr:
    """The derivative of log Gamma, in the same ways."""
    left = x < number(0.5)
    z = op.where(left, number(1) - x, x)
    before: Expr = number(0)
    for step in range(_SHIFT):
        before = before + number(1) / (z + number(step))
    moved = z + number(_SHIFT)
    square = number(1) / (moved * moved)
    series = square * horner(square, [-b / (2 * j) for j, b in enumerate(_BERNOULLI, start=1)])
    made = op.log(moved) - number(0.5) / moved + series
    made = made - before
    turned = number(math.pi) * (x - op.round(x))
    found = op.where(left, made - number(math.pi) / op.tan(turned), made)
    found = op.where(op.logical_and(x < number(0), op.equal(x, op.floor(x))), number(_NAN), found)
    return op.where(op.equal(x, number(0)), number(-1) / x, found)


converts("aten.lgamma", "aten.special_gammaln")(_of_one(log_gamma))
converts("aten.digamma", "aten.special_digamma", "aten.special_psi")(_of_one(digamma))

#: Terms that are summed before the rest is an integral with corrections.
_FIRST_TERMS = 24


def zeta(s: Expr, q: Expr) -> Expr:
    """The sum of (q + k)^-s over all k from 0 on (Hurwitz), by the formula of Euler and Maclaurin."""
    minus = -s
    total: Expr = op.power(q, minus)
    for step in range(1, _FIRST_TERMS):
        total = total + op.power(q + number(step), minus)
    end = q + number(_FIRST_TERMS)
    power = op.power(end, minus)
    rest = power * end / (s - number(1)) + power * number(0.5)
    inverse = number(1) / end
    factor = s * power * inverse
    for j, bernoulli in enumerate(_BERNOULLI, start=1):
        rest = rest + factor * number(bernoulli / math.factorial(2 * j))
        step_up = (s + number(2 * j - 1)) * (s + number(2 * j))
        factor = factor * step_up * (inverse * inverse)
    found = total + rest
    whole = op.equal(q, op.floor(q))
    below = q <= number(0)
    unreal = op.logical_and(op.logical_and(below, op.logical_not(whole)), op.not_equal(s, op.floor(s)))
    found = op.where(unreal, number(_NAN), found)
    found = op.where(op.logical_and(below, whole), number(_INFINITY), found)
    found = op.where(op.equal(s, number(1)), number(_INFINITY), found)
    return op.where(s < number(1), number(_NAN), found)


@converts("aten.special_zeta")
def convert_zeta(node: TorchNode) -> Expr:
    return cast(zeta(node.tensor("self", _DOUBLE), node.tensor("other", _DOUBLE)), node.dtype)


@converts("aten.polygamma", "aten.special_polygamma")
def convert_polygamma(node: TorchNode, n: Any) -> Expr:
    x = node.tensor("self", _DOUBLE)
    scale = (-1.0) ** (n + 1) * math.factorial(n)
    return cast(scale * zeta(number(n + 1), x) if n else digamma(x), node.dtype)


# -------------------------------------------------------------------------------------------------- normal (DLMF 7)
def erfcx(x: Expr) -> Expr:
    """exp(x^2) (1 - erf(x)): an integral of what falls from 1 to nothing."""
    size = op.abs(x)
    square = size * size
    end = number(40) / (size + op.sqrt(square + number(40)))

    def falling(wide: Expr, t: Expr) -> Expr:
        return op.exp(-(t * (t + number(2) * wide)))

    made = integral(size, end, falling, 48) * number(2 / math.sqrt(math.pi))
    made = op.where(op.equal(size, number(_INFINITY)), number(0), made)
    return op.where(x < number(0), number(2) * op.exp(square) - made, made)


def log_ndtr(x: Expr) -> Expr:
    """The logarithm of the normal distribution function."""
    scaled = x * number(math.sqrt(0.5))
    negative = op.minimum(scaled, number(0))
    tail = erfcx(-negative) * number(0.5)
    below = op.log(tail) - negative * negative
    positive = op.maximum(scaled, number(0))
    above = erfcx(positive) * op.exp(-(positive * positive)) * number(-0.5)
    return op.where(x < number(0), below, op.log1p(above))


def ndtri(p: Expr) -> Expr:
    """The inverse of the normal distribution function, by Newton's method on its logarithm, on the lower side."""
    upper = p > number(0.5)
    side = op.where(upper, number(1) - p, p)
    known = op.logical_and(side > number(0), side <= number(0.5))
    log = op.log(op.where(known, side, number(0.5)))
    y = -op.sqrt(number(-2) * log)
    for _ in range(5):
        scaled = erfcx(y * number(-math.sqrt(0.5)))
        value = op.log(scaled * number(0.5)) - y * y * number(0.5)
        slope = number(math.sqrt(2 / math.pi)) / scaled
        y = y - (value - log) / slope
    y = op.where(upper, -y, y)
    y = op.where(op.equal(p, number(0)), number(-_INFINITY), y)
    y = op.where(op.equal(p, number(1)), number(_INFINITY), y)
    centre = p * number(2) - number(1)
    close = functions.erfinv(centre) * number(math.sqrt(2))
    y = op.where(op.abs(centre) < number(0.5), close, y)
    outside = op.logical_or(op.logical_or(p < number(0), p > number(1)), op.isnan(p))
    return op.where(outside, number(_NAN), y)


converts("aten.special_erfcx")(_of_one(erfcx))
converts("aten.special_log_ndtr")(_of_one(log_ndtr))
converts("aten.special_ndtri")(_of_one(ndtri))
converts("aten.erfinv", "aten.special_erfinv")(_of_one(functions.erfinv))


# ------------------------------------------------------------------------------------------------- Bessel (DLMF 10)
#: From here on Hankel's expansions are exact to single precision.
_FAR = 25.0


def _hankel(order: int, z: Expr, signs: bool) -> list[Expr]:
    """The even and the odd part of the expansion in 1 / z (10.17.1), with alternating signs where `signs`."""
    terms, value = [1.0], 1.0
    for k in range(1, 10):
        value *= (4 * order**2 - (2 * k - 1) ** 2) / (8 * k)
        terms.append(value)
    inverse = number(1) / z
    square = inverse * inverse
    even = [term * ((-1) ** i if signs else 1) for i, term in enumerate(terms[0::2])]
    odd = [term * ((-1) ** i if signs else 1) for i, term in enumerate(terms[1::2])]
    return [horner(square, even), inverse * horner(square, odd)]


def _odd(x: Expr, made: Expr, cubic: float, scaled: bool = False) -> Expr:
    """The function of order 1 from `made`, that of |x|; near 0 by its series, as integrals cancel there."""
    near: Expr = x * number(0.5) * (number(1) + x * x * number(cubic))
    if scaled:
        near = near * op.exp(-op.abs(x))
    return op.where(op.abs(x) < number(1e-4), near, op.where(x < number(0), -made, made))


def bessel_i(order: int, scaled: bool) -> Callable[[Expr], Expr]:
    """The modified function of the first kind, times exp(-|x|) where it is scaled: a periodic integral (10.32.3)."""

    def compute(x: Expr) -> Expr:
        size = op.abs(x)
        near = op.minimum(size, number(4 * _FAR))
        angles = np.linspace(0, np.pi, 65)
        weights = np.where((angles == 0) | (angles == np.pi), 0.5, 1.0) / 64 * np.cos(order * angles)
        grown = op.expand_dims(near, axis=rank_of(near)) * constant(np.cos(angles) - 1, _DOUBLE)
        close = op.sum(op.exp(grown) * constant(weights, _DOUBLE), axis=(rank_of(x),))
        far = op.maximum(size, number(4 * _FAR))
        even, odd = _hankel(order, far, False)
        remote = (even - odd) / op.sqrt(number(2 * math.pi) * far)
        made = op.where(size < number(4 * _FAR), close, remote)
        made = made if scaled else made * op.exp(size)
        return _odd(x, made, 1 / 8, scaled) if order % 2 else made

    return compute


def bessel_k(order: float, scaled: bool) -> Callable[[Expr], Expr]:
    """The modified function of the second kind, times exp(x) where it is scaled (10.32.9); NaN below 0."""

    def compute(x: Expr) -> Expr:
        safe = op.maximum(x, number(1e-300))
        end = op.minimum(op.acosh(number(1) + number(40) / safe), number(600.0))

        def falling(wide: Expr, t: Expr) -> Expr:
            half = op.sinh(t * number(0.5))
            decay = op.exp(wide * number(-2) * (half * half))
            return decay * op.cosh(t * number(order)) if order else decay

        made = integral(safe, end, falling)
        made = made if scaled else made * op.exp(-x)
        made = op.where(op.equal(x, number(0)), number(_INFINITY), made)
        return op.where(x < number(0), number(_NAN), made)

    return compute


def _waves(order: int, far: Expr) -> tuple[Expr, Expr]:
    """The functions of both kinds far out (10.17.3)."""
    even, odd = _hankel(order, far, True)
    phase = far - number((order / 2 + 0.25) * math.pi)
    cosine, sine = op.cos(phase), op.sin(phase)
    size = op.sqrt(number(2 / math.pi) / far)
    first = even * cosine - odd * sine
    return size * first, size * (even * sine + odd * cosine)


def bessel_j(order: int) -> Callable[[Expr], Expr]:
    """The function of the first kind: a periodic integral (10.9.2), far out Hankel's expansion."""

    def compute(x: Expr) -> Expr:
        size = op.abs(x)
        near, far = op.minimum(size, number(_FAR)), op.maximum(size, number(_FAR))
        angles = (np.arange(96) + 0.5) * (2 * np.pi / 96)
        wide = op.expand_dims(near, axis=rank_of(near)) * constant(-np.sin(angles), _DOUBLE)
        close = op.mean(op.cos(wide + constant(order * angles, _DOUBLE)), axis=(rank_of(x),))
        made = op.where(size < number(_FAR), close, _waves(order, far)[0])
        return _odd(x, made, -1 / 8) if order % 2 else made

    return compute


def bessel_y(order: int) -> Callable[[Expr], Expr]:
    """The function of the second kind: two integrals (10.9.7), far out Hankel's expansion."""

    def compute(x: Expr) -> Expr:
        near = op.minimum(op.maximum(x, number(1e-300)), number(_FAR))
        turns = integral(
            near, near * number(0) + number(math.pi), lambda wide, t: op.sin(wide * op.sin(t) - t * number(order))
        )
        end = op.minimum(op.asinh(number(40) / near), number(600.0))

        def falling(wide: Expr, t: Expr) -> Expr:
            grown = op.cosh(t) if order == 0 else op.sinh(t)
            decay = op.exp(-(wide * op.sinh(t)))
            return number(2) * (decay * grown if order else decay)

        close = (turns - integral(near, end, falling)) / number(math.pi)
        made = op.where(x < number(_FAR), close, _waves(order, op.maximum(x, number(_FAR)))[1])
        made = op.where(op.equal(x, number(0)), number(-_INFINITY), made)
        return op.where(x < number(0), number(_NAN), made)

    return compute


def airy(x: Expr) -> Expr:
    """Airy's Ai: its power series near 0 (9.4.1), integrals and waves further out (9.6.2, 9.7.9)."""
    near = op.minimum(op.maximum(x, number(-8.0)), number(2.0))
    cube = near * near * near
    first, second = [1.0], [1.0]
    for k in range(1, 40):
        first.append(first[-1] / ((3 * k - 1) * (3 * k)))
        second.append(second[-1] / ((3 * k) * (3 * k + 1)))
    at_zero = (3 ** (-2 / 3) / math.gamma(2 / 3), 3 ** (-1 / 3) / math.gamma(1 / 3))
    close = number(at_zero[0]) * horner(cube, first) - number(at_zero[1]) * near * horner(cube, second)
    above = op.maximum(x, number(2.0))
    argument = number(2 / 3) * (above * op.sqrt(above))
    right = op.sqrt(above / number(3)) * bessel_k(1 / 3, False)(argument)
    below = op.maximum(-x, number(8.0))
    phase = number(2 / 3) * (below * op.sqrt(below))
    terms = [1.0]
    for k in range(1, 8):
        terms.append(terms[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    inverse = number(1) / phase
    square = inverse * inverse
    even = horner(square, [term * (-1) ** i for i, term in enumerate(terms[0::2])])
    odd = inverse * horner(square, [term * (-1) ** i for i, term in enumerate(terms[1::2])])
    turned = phase - number(math.pi / 4)
    wave = op.cos(turned) * even + op.sin(turned) * odd
    left = wave / (op.sqrt(op.sqrt(below)) * number(math.sqrt(math.pi)))
    found = op.where(x > number(2.0), right * number(1 / math.pi), close)
    return op.where(x < number(-8.0), left, found)


def spherical(x: Expr) -> Expr:
    """sin(x) / x."""
    zero = op.equal(x, number(0))
    safe = op.where(zero, number(1), x)
    return op.where(op.isinf(x), number(0), op.where(zero, number(1), op.sin(safe) / safe))


_BESSEL: dict[str, Callable[[Expr], Expr]] = {
    "i0": bessel_i(0, False), "special_i0": bessel_i(0, False), "special_i0e": bessel_i(0, True),
    "special_i1": bessel_i(1, False), "special_i1e": bessel_i(1, True),
    "special_modified_bessel_i0": bessel_i(0, False), "special_modified_bessel_i1": bessel_i(1, False),
    "special_modified_bessel_k0": bessel_k(0, False), "special_modified_bessel_k1": bessel_k(1, False),
    "special_scaled_modified_bessel_k0": bessel_k(0, True), "special_scaled_modified_bessel_k1": bessel_k(1, True),
    "special_bessel_j0": bessel_j(0), "special_bessel_j1": bessel_j(1),
    "special_bessel_y0": bessel_y(0), "special_bessel_y1": bessel_y(1),
    "special_airy_ai": airy, "special_spherical_bessel_j0": spherical,
}  # fmt: skip

for _name, _function in _BESSEL.items():
    converts(f"aten.{_name}")(_of_one(_function))


# ------------------------------------------------------------------------------------------- polynomials (DLMF 18)
Pair = tuple[Expr, Expr]


def _chebyshev(first: Callable[[Expr], Expr]) -> tuple[Callable[[Expr], Expr], Callable[..., Expr]]:
    return first, lambda x, k, one, two: number(2) * x * one - two


def _weighted(x: Expr, one: Expr, two: Expr, a: Expr, k: float) -> Expr:
    return (a * one - number(k) * two) / number(k + 1)


def _double(x: Expr) -> Expr:
    return number(2) * x


#: The polynomial of order 1, and that of order k + 1 by those of order k and k - 1.
_POLYNOMIALS: dict[str, tuple[Callable[[Expr], Expr], Callable[..., Expr]]] = {
    "chebyshev_polynomial_t": _chebyshev(lambda x: x),
    "chebyshev_polynomial_u": _chebyshev(_double),
    "chebyshev_polynomial_v": _chebyshev(lambda x: _double(x) - number(1)),
    "chebyshev_polynomial_w": _chebyshev(lambda x: _double(x) + number(1)),
    "hermite_polynomial_h": (_double, lambda x, k, one, two: _double(x) * one - number(2 * k) * two),
    "hermite_polynomial_he": (lambda x: x, lambda x, k, one, two: x * one - number(k) * two),
    "laguerre_polynomial_l": (
        lambda x: number(1) - x,
        lambda x, k, one, two: _weighted(x, one, two, number(2 * k + 1) - x, k),
    ),
    "legendre_polynomial_p": (lambda x: x, lambda x, k, one, two: _weighted(x, one, two, number(2 * k + 1) * x, k)),
}

#: The highest order that a run may ask for; above it the result is NaN.
_MOST_ORDERS = 40


@converts(*(f"aten.special_{name}" for name in _POLYNOMIALS),
          *(f"aten.special_shifted_{name}" for name in _POLYNOMIALS if name.startswith("chebyshev")))  # fmt: skip
def convert_polynomial(node: TorchNode, n: Any) -> Expr:
    """An orthogonal polynomial whose order is a number, or a tensor of them; 0 for negative orders."""
    x = node.tensor("x", _DOUBLE)
    name = node.target.split(".")[1].removeprefix("special_")
    if name.startswith("shifted_"):
        x, name = _double(x) - number(1), name.removeprefix("shifted_")
    first, following = _POLYNOMIALS[name]
    fixed = not isinstance(n, Expr)
    most = max(int(n), 0) if fixed else _MOST_ORDERS
    values: list[Expr] = [x * number(0) + number(1), first(x)]
    for k in range(1, most):
        values.append(following(x, k, values[-1], values[-2]))
    if fixed:
        made = values[most] if n >= 0 else values[0] * number(0)
        return cast(made, node.dtype)
    wanted = op.trunc(node.tensor("n", _DOUBLE))
    found: Any = values[0] * number(0) * wanted
    found = op.where(wanted > number(_MOST_ORDERS), like(_NAN, found), found)
    for k, value in enumerate(values):
        found = op.where(op.equal(wanted, number(k)), value, found)
    return cast(found, node.dtype)
