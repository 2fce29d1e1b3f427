"""Offsets of buffers some of which may share bytes although both are live: a kernel's result over what it reads last.

    a: 100 bytes, dies where b is made                     b at 0, a at 16: 116 bytes
    b: 100 bytes, to begin 16 bytes before a or earlier

Positions are relative until all are known, so that one may also be before those that came first.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.runtime.memory import round_up

#: Orders that are tried beyond those by size and by time; each takes milliseconds.
_TRIES = 60


@dataclass(frozen=True)
class Piece:
    """A buffer: its bytes, and the first and last kernel that touch it."""

    key: Hashable
    nbytes: int
    first: int
    last: int


@dataclass(frozen=True)
class _Rule:
    """A buffer that lives with another, whose position less this one's must not lie between `above` and `below`."""

    other: int
    above: int
    below: int


def shared_offsets(
    pieces: Sequence[Piece], distances: Mapping[tuple[Any, Any], int], alignment: int
) -> dict[Hashable, int]:
    """The offset of each buffer by its key, multiples of `alignment` from 0.

    `distances[a, b]` is the number of bytes by which b has to begin before a if they share any; pairs without one that
    are live at the same time do not.
    """
    rules = _rules(pieces, distances, alignment)
    least = _least(pieces, distances, alignment)
    by_size = sorted(range(len(pieces)), key=lambda i: (-pieces[i].nbytes, pieces[i].first))
    by_time = sorted(range(len(pieces)), key=lambda i: (pieces[i].first, -pieces[i].nbytes))
    orders = [by_size, by_time, by_time[::-1]]
    numbers = random.Random(len(pieces))
    best: list[int] = []
    best_order, best_size = by_size, -1
    for turn in range(len(orders) + _TRIES if len(pieces) > 1 else 1):
        order = orders[turn] if turn < len(orders) else _changed(best_order, numbers)
        positions = _assigned(order, pieces, rules)
        size = _extent(positions, pieces)
        if best_size < 0 or size < best_size:
            best, best_order, best_size = positions, order, size
        if best_size <= least:
            break
    start = min(best, default=0)
    return {piece.key: position - start for piece, position in zip(pieces, best, strict=True)}


def _changed(order: Sequence[int], numbers: random.Random) -> list[int]:
    """The order with one buffer moved to another turn."""
    changed = list(order)
    changed.insert(numbers.randrange(len(order)), changed.pop(numbers.randrange(len(order))))
    return changed


def _extent(positions: Sequence[int], pieces: Sequence[Piece]) -> int:
    if not pieces:
        return 0
    return max(at + piece.nbytes for at, piece in zip(positions, pieces)) - min(positions)


def _rules(pieces: Sequence[Piece], distances: Mapping[tuple[Any, Any], int], alignment: int) -> list[list[_Rule]]:
    """For each buffer what its position means for those that live with it."""
    rules: list[list[_Rule]] = [[] for _ in pieces]
    for i, a in enumerate(pieces):
        for j, b in enumerate(pieces[:i]):
            if a.first > b.last or b.first > a.last:
                continue
            above, below = -round_up(b.nbytes, alignment), round_up(a.nbytes, alignment)
            if (a.key, b.key) in distances:
                above = max(above, -round_up(distances[a.key, b.key], alignment))
            if (b.key, a.key) in distances:
                below = min(below, round_up(distances[b.key, a.key], alignment))
            if above < below:
                rules[i].append(_Rule(j, above, below))
                rules[j].append(_Rule(i, -below, -above))
    return rules


def _assigned(order: Sequence[int], pieces: Sequence[Piece], rules: Sequence[Sequence[_Rule]]) -> list[int]:
    """Positions of the buffers in turn, each where the whole grows least."""
    positions: dict[int, int] = {}
    low = high = 0
    for i in order:
        related = [(positions[rule.other], rule) for rule in rules[i] if rule.other in positions]
        # the other's position less this one's is at most `above` or at least `below`
        wanted = {0, low, *(at - rule.above for at, rule in related), *(at - rule.below for at, rule in related)}
        size = pieces[i].nbytes
        allowed = [p for p in wanted if not any(rule.above < at - p < rule.below for at, rule in related)]
        best = min(allowed, key=lambda p: (max(high, p + size) - min(low, p), abs(p), p))
        positions[i] = best
        low, high = min(low, best), max(high, best + size)
    return [positions[i] for i in range(len(pieces))]


def _least(pieces: Sequence[Piece], distances: Mapping[tuple[Any, Any], int], alignment: int) -> int:
    """Bytes that are needed anyway: at each kernel what stays, and the larger of what dies and what is made."""
    most = 0
    ends = {key for pair in distances for key in pair}
    for step in {piece.first for piece in pieces}:
        alive = [piece for piece in pieces if piece.first <= step <= piece.last]
        dying = sum(p.nbytes for p in alive if p.key in ends and p.last == step and p.first < step)
        made = sum(p.nbytes for p in alive if p.key in ends and p.first == step and p.last > step)
        most = max(most, sum(p.nbytes for p in alive) - min(dying, made))
    return most
