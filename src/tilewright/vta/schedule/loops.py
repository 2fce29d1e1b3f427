"""The choice of the loops of a computation that become an instruction's two loops; the others are spelled out in
micro-ops.

An instruction walks micro-ops in an inner and an outer loop. Of the loops of a convolution two can be those; micro-ops
have the rest. Few micro-ops are better: they are loaded, and the compute unit reads them through before it begins.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tilewright.vta.codec import make_uop
from tilewright.vta.commands import ONCE, Loop, Words
from tilewright.vta.isa import Isa


@dataclass(frozen=True)
class Plan:
    """Two loops, and the offsets (dst, src, wgt) of micro-ops."""

    outer: Loop
    inner: Loop
    offsets: tuple[tuple[int, int, int], ...]

    def words(self, isa: Isa, dst: int = 0, src: int = 0, wgt: int = 0) -> Words:
        """The micro-ops, their tiles beginning at these elements of the memories."""
        return _words(isa, self.offsets, dst, src, wgt)


def _words(isa: Isa, offsets: Sequence[tuple[int, int, int]], dst: int, src: int, wgt: int) -> Words:
    low = [isa.uop.by_name[name].low for name in ("dst", "src", "wgt")]
    make_uop(
        isa, *(max(column) + base for column, base in zip(zip(*offsets), (dst, src, wgt)))
    )  # refuses what is too far
    values = np.array(offsets, np.int64) + np.array([dst, src, wgt])
    return tuple((values[:, 0] << low[0] | values[:, 1] << low[1] | values[:, 2] << low[2]).tolist())


@lru_cache(maxsize=4096)
def plan(loops: tuple[Loop, ...], most: int) -> Plan | None:
    """The best way to walk `loops` with at most `most` micro-ops; None where there is none.

    Sums come out the same in any order of the loops.
    """
    merged = _merge([loop for loop in loops if loop[0] > 1])
    best: tuple[tuple[int, int], Plan] | None = None
    for outer, inner in itertools.permutations([*range(len(merged)), -1, -2], 2):
        rest = [loop for index, loop in enumerate(merged) if index not in (outer, inner)]
        rest.sort(key=lambda loop: loop[1] > 0)  # sums outside, outputs inside
        count = int(np.prod([loop[0] for loop in rest], dtype=int))
        if count > most:
            continue
        chosen = [merged[index] if index >= 0 else ONCE for index in (outer, inner)]
        cost = (count, -chosen[1][0])
        if best is None or cost < best[0]:
            best = cost, Plan(chosen[0], chosen[1], _offsets(rest))
    return None if best is None else best[1]


def _merge(loops: Sequence[Loop]) -> list[Loop]:
    """Loops of which one only continues the other are one."""
    left = list(loops)
    for one, other in itertools.permutations(loops, 2):
        if one in left and other in left and all(a == b * other[0] for a, b in zip(one[1:], other[1:])):
            left[left.index(one)] = (one[0] * other[0], *other[1:])
            left.remove(other)
            return _merge(left)
    return left


def _offsets(loops: Sequence[Loop]) -> tuple[tuple[int, int, int], ...]:
    total = np.zeros((1, 3), np.int64)
    for rounds, *factors in loops:
        total = (total[:, None] + np.arange(rounds)[None, :, None] * np.array(factors)).reshape(-1, 3)
    return tuple((int(a), int(b), int(c)) for a, b, c in total)
