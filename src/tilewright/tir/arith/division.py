"""Floor division and remainder of sums by constants: the resolutions that tiling and fusing of loops call for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.tir import expr as e
from tilewright.tir import op
from tilewright.tir.arith.linear import Linear
from tilewright.tir.expr import Expr, IntImm

if TYPE_CHECKING:
    from tilewright.tir.arith.simplify import Simplifier


def floordiv(s: Simplifier, form: Linear, c: int, dtype: str) -> Linear:
    """form // c for c > 0.

    Multiples of c leave the division; a rest that stays within one block of c is a constant; a part too small to
    matter is dropped, `(x*8 + y)//16 -> x//2` for y in [0, 8); divisions in one another become one.
    """
    whole, rest = form.split(c)
    if not rest.terms and not 0 <= rest.constant < c:
        return whole.shifted(rest.constant // c)
    low, high = s.analyzer.bound_of(rest)
    if low is not None and high is not None and low // c == high // c:
        return whole.shifted(low // c)
    coarse = without_small_part(s, rest, c)
    if coarse is not None:
        g, big, _ = coarse
        return whole.plus(floordiv(s, big, c // g, dtype))
    return whole.plus(Linear.of(_quotient(s, rest, c, dtype)))


def _quotient(s: Simplifier, rest: Linear, c: int, dtype: str) -> Expr:
    """rest // c where no part of it can be split off."""
    if len(rest.terms) == 1:
        ((atom, coefficient),) = rest.terms.items()
        if coefficient == 1 and isinstance(atom, e.FloorDiv) and isinstance(atom.b, IntImm) and atom.b.value > 0:
            inner = atom.b.value
            return floordiv(s, Linear.of(atom.a).shifted(rest.constant * inner), inner * c, dtype).to_expr(
                dtype, s.rank
            )
        if coefficient == 1 and isinstance(atom, e.FloorMod) and isinstance(atom.b, IntImm) and rest.constant == 0:
            blocks, left = divmod(atom.b.value, c)
            if left == 0 and blocks > 0:
                return floormod(s, floordiv(s, Linear.of(atom.a), c, dtype), blocks, dtype).to_expr(dtype, s.rank)
    return e.FloorDiv(rest.to_expr(dtype, s.rank), op.const(c, dtype))


def floormod(s: Simplifier, form: Linear, c: int, dtype: str) -> Linear:
    """form % c for c > 0, with the counterparts of `floordiv`'s resolutions."""
    _, rest = form.without_mods_of(c).split(c)
    rest = _with_known_remainders(s, rest, c)
    low, high = s.analyzer.bound_of(rest)
    if low is not None and high is not None and low // c == high // c:
        return rest.shifted(-(low // c) * c)
    coarse = without_small_part(s, rest, c)
    if coarse is not None:
        g, big, small = coarse
        return floormod(s, big, c // g, dtype).times(g).plus(small)
    return Linear({e.FloorMod(rest.to_expr(dtype, s.rank), op.const(c, dtype)): 1})


def _with_known_remainders(s: Simplifier, rest: Linear, c: int) -> Linear:
    """Terms whose remainder modulo c is known, such as x where x % 4 == 1 holds, replaced by it."""
    for atom in list(rest.terms):
        step, base = s.analyzer.modular_set(atom)
        if rest.terms[atom] * step % c == 0:
            rest = rest.replaced(atom, Linear({}, base))
    return rest.shifted(-(rest.constant // c) * c)


def without_small_part(s: Simplifier, form: Linear, c: int) -> tuple[int, Linear, Linear] | None:
    """(g, big, small) with form = g*big + small, 1 < g <= c a divisor of c, and 0 <= small < g; the largest such g."""
    candidates = {math.gcd(c, k) for k in form.terms.values()} - {1}
    for g in sorted(candidates, reverse=True):
        found = split_by(s, form, g)
        if found is not None:
            return (g, *found)
    return None


def split_by(s: Simplifier, form: Linear, g: int) -> tuple[Linear, Linear] | None:
    """(big, small) with form = g*big + small and 0 <= small < g, for terms in small that g does not divide."""
    small = Linear({a: k for a, k in form.terms.items() if k % g}, form.constant)
    low, high = s.analyzer.bound_of(small)
    if low is None or high is None or low // g != high // g:
        return None
    big = Linear({a: k // g for a, k in form.terms.items() if k % g == 0}, low // g)
    return big, small.shifted(-(low // g) * g)


def floordiv_symbolic(s: Simplifier, form: Linear, divisor: Expr, dtype: str) -> Linear | None:
    """form // divisor >= 1: multiples of the divisor leave the division if the rest is provably in [0, divisor).

    `(x*n + y) // n -> x` for 0 <= y < n.
    """
    parts = _split_symbolic(s, form, divisor)
    return None if parts is None else parts[0]


def floormod_symbolic(s: Simplifier, form: Linear, divisor: Expr, dtype: str) -> Linear | None:
    """form % divisor, as `floordiv_symbolic`: `(x*n + y) % n -> y`."""
    parts = _split_symbolic(s, form, divisor)
    return None if parts is None else parts[1]


def _split_symbolic(s: Simplifier, form: Linear, divisor: Expr) -> tuple[Linear, Linear] | None:
    """(quotient, remainder) if the terms that contain `divisor` as a factor leave a rest in [0, divisor)."""
    if not all(_divides(s, factor) for factor in s.factors(divisor)):
        return None
    quotient, rest = Linear({}, 0), Linear({}, form.constant)
    for atom, k in form.terms.items():
        factors = s.factors(atom)
        if divisor in factors:
            factors.remove(divisor)
            quotient = quotient.plus(s.product(factors, atom.dtype), k)
        else:
            rest = rest.plus(Linear({atom: k}))
    nothing = not rest.terms and not rest.constant
    inside = nothing or (
        s.analyzer.at_most_zero(rest.times(-1)) and s.analyzer.at_most_zero(rest.minus(Linear.of(divisor)).shifted(1))
    )
    return (quotient, rest) if inside else None


def _divides(s: Simplifier, factor: Expr) -> bool:
    """True if a factor of a divisor may be taken for 1 at least: it is, or it is a size, by which 0 is not divided."""
    first = s.analyzer.const_int_bound(factor)[0]
    return (first is not None and first >= 1) or isinstance(factor, e.SizeVar)
