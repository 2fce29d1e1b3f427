"""Bounds of quotients, remainders, shifts and masks, from those of their operands; an end that is None is open.

Nothing is divided by 0, so a divisor's range counts without it.
"""

from __future__ import annotations

from collections.abc import Callable

Bound = tuple[int | None, int | None]
#: Stands for a divisor without limit: every quotient by it is as near to 0 as one by any larger.
_HUGE = 1 << 200


def toward_zero(a: int, b: int) -> int:
    """a / b rounded towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def quotient_bound(dividend: Bound, divisor: Bound, divide: Callable[[int, int], int]) -> Bound:
    """The bound of `divide`, which rounds down or towards zero: at the ends of the ranges, by sign of the divisor."""
    low, high = dividend
    lows: list[int | None] = []
    highs: list[int | None] = []
    for first, last in _by_sign(divisor):
        ends = (-_HUGE if first is None else first, _HUGE if last is None else last)
        small, large = (low, high) if ends[0] > 0 else (high, low)  # which end of the dividend bounds which
        lows.append(None if small is None else min(divide(small, end) for end in ends))
        highs.append(None if large is None else max(divide(large, end) for end in ends))
    return _least(lows), _greatest(highs)


def floormod_bound(dividend: Bound, divisor: Bound) -> Bound:
    """The bound of a remainder with the sign of the divisor."""
    (low, high), (first, last) = dividend, divisor
    known = first is not None and first == last and first > 0 and low is not None and high is not None
    if known and low // first == high // first:  # type: ignore[operator]
        return low % first, high % first  # type: ignore[operator]
    if first is not None and first >= 0 and low is not None and low >= 0:
        limit = None if last is None else max(last - 1, 0)
        return 0, high if limit is None else limit if high is None else min(limit, high)
    above = None if last is None else max(last - 1, 0)
    below = None if first is None else min(first + 1, 0)
    if low is not None and low >= 0 and high is not None and first is not None and first < 0:
        above = high if above is None else min(above, high)  # by a positive divisor; by a negative one at most 0
    return below, above


def truncmod_bound(dividend: Bound, divisor: Bound) -> Bound:
    """The bound of a remainder with the sign of the dividend, which is nearer to 0 than dividend and divisor."""
    (low, high), (first, last) = dividend, divisor
    limit = None if first is None or last is None else max(abs(first), abs(last), 1) - 1
    below = 0 if low is not None and low >= 0 else _greatest_known(low, None if limit is None else -limit)
    above = 0 if high is not None and high <= 0 else _least_known(high, limit)
    return below, above


def and_bound(first: Bound, second: Bound) -> Bound:
    """The bound of a & b: where one of them is not negative, from 0 to the least that is not."""
    highs = [high for low, high in (first, second) if low is not None and low >= 0]
    if not highs:
        return None, None
    known = [high for high in highs if high is not None]
    return 0, min(known) if known else None


def shifted(value: Bound, positions: Bound) -> Bound:
    """The bound of value >> positions, which rounds down."""
    least = max(positions[0] or 0, 0)
    ends = (1 << min(least, 200), _HUGE if positions[1] is None else 1 << min(max(positions[1], least), 200))
    return quotient_bound(value, ends, lambda p, q: p // q)


def _by_sign(divisor: Bound) -> list[Bound]:
    """The negative and the positive part of a range, as far as there are such."""
    first, last = divisor
    parts: list[Bound] = []
    if first is None or first < 0:
        parts.append((first, -1 if last is None else min(last, -1)))
    if last is None or last > 0:
        parts.append((1 if first is None else max(first, 1), last))
    return parts


def _least(ends: list[int | None]) -> int | None:
    return None if None in ends or not ends else min(end for end in ends if end is not None)


def _greatest(ends: list[int | None]) -> int | None:
    return None if None in ends or not ends else max(end for end in ends if end is not None)


def _greatest_known(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else max(a, b)


def _least_known(a: int | None, b: int | None) -> int | None:
    return a if b is None else b if a is None else min(a, b)
